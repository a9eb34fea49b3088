"""What somebody did wrong, told in one line.

Spark shows whatever a Python process raises together with the way it came. An error of ours says
what is wrong and what to do; twenty lines of our code around it only hide that. A mistake of our
own, anything that is no KafscaleError, keeps its traceback.
Never here: Spark itself.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Final, ParamSpec, TypeVar

from kafscale.model.errors import KafscaleError

P = ParamSpec("P")
R = TypeVar("R")

# PySpark's own switch, asked for when it reports an error, after which the process ends.
_SWITCH: Final = "SPARK_HIDE_TRACEBACK"


def plainly(work: Callable[P, R]) -> Callable[P, R]:
    """Let Spark tell errors of ours that this raises, and nothing but them."""

    @functools.wraps(work)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except KafscaleError:
            hide_the_way()
            raise

    return told


def rows_plainly(read: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """The same for errors that come while rows are read."""

    @functools.wraps(read)
    def told(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from read(*args, **kwargs)
        except KafscaleError:
            hide_the_way()
            raise

    return told


def hide_the_way() -> None:
    """Leave the traceback out of what Spark reports; nowhere but in a process of Spark's own."""
    if _is_sparks_own():
        os.environ[_SWITCH] = "1"


def _is_sparks_own() -> bool:
    started_as = getattr(sys.modules.get("__main__"), "__spec__", None)
    return started_as is not None and started_as.name.startswith("pyspark.")
