"""What somebody did wrong, told in one line.

Spark shows whatever a Python process raises together with the way it came. An error of ours says
what is wrong and what to do; twenty lines of our code around it only hide that. A mistake of our
own, anything that is no KafscaleError, keeps its traceback.
Next door: the commands that print it (cli/pipeline.py, cli/sql.py).
"""

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

from kafscale.model.errors import KafscaleError

P = ParamSpec("P")
R = TypeVar("R")


class SparkFailed(KafscaleError):
    """A query of ours that Spark refused, or whose tasks failed."""


# PySpark's own switch, asked for when it reports an error, after which the process ends.
_SWITCH: Final = "SPARK_HIDE_TRACEBACK"


def without_traceback(work: Callable[P, R]) -> Callable[P, R]:
    """Let Spark tell errors of ours that this raises, and nothing but them."""

    @functools.wraps(work)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except KafscaleError:
            hide_traceback()
            raise

    return told


def rows_without_traceback(read: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """The same for errors that come while rows are read."""

    @functools.wraps(read)
    def told(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from read(*args, **kwargs)
        except KafscaleError:
            hide_traceback()
            raise

    return told


def hide_traceback() -> None:
    """Leave the traceback out of what Spark reports; nowhere but in a process of Spark's own."""
    if _is_sparks_own():
        os.environ[_SWITCH] = "1"


def _is_sparks_own() -> bool:
    started_as = getattr(sys.modules.get("__main__"), "__spec__", None)
    return started_as is not None and started_as.name.startswith("pyspark.")


@contextmanager
def spark_errors_shortened() -> Iterator[None]:
    """Tell what Spark found wrong without the two stack traces it comes with."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as wrong:
        raise SparkFailed(plain_text(str(wrong))) from wrong


def plain_text(text: str) -> str:
    """What an error of Spark says: our own words in it, if it is one of ours from a worker."""
    ours = re.findall(r"(?:^|\s)kafscale\.[\w.]+: (.+?)(?:\s*SQLSTATE: \w+)?$", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    return text.split("\n\nJVM stacktrace")[0].split(";\n")[0]
