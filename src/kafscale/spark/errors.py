"""Errors of the pipeline in one line.

Spark shows every error of a Python process with its traceback. A KafscaleError says what is wrong
and what to do; its traceback only hides that. All other errors keep their traceback, because they
are bugs.
Next door: the commands that print errors (cli/bucket/pipeline.py, cli/bucket/sql.py).
"""

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final, ParamSpec, TypeVar

from kafscale.model.errors import InvalidRequest, KafscaleError

P = ParamSpec("P")
R = TypeVar("R")


class SparkFailed(KafscaleError):
    """Spark refused a query of the pipeline, or tasks of it failed."""


class QueryRefused(InvalidRequest):
    """Spark could not read a query. The lines of the text point at the place in it."""

    keeps_lines: ClassVar[bool] = True


# PySpark's own switch, asked for when it reports an error, after which the process ends.
_SWITCH: Final = "SPARK_HIDE_TRACEBACK"


def without_traceback(work: Callable[P, R]) -> Callable[P, R]:
    """Let Spark report a KafscaleError that this raises without its traceback."""

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
    """Leave the traceback out of what Spark reports, in processes that Spark started only."""
    if _is_sparks_own():
        os.environ[_SWITCH] = "1"


def _is_sparks_own() -> bool:
    started_as = getattr(sys.modules.get("__main__"), "__spec__", None)
    return started_as is not None and started_as.name.startswith("pyspark.")


@contextmanager
def spark_errors_shortened() -> Iterator[None]:
    """Raise what Spark found wrong as SparkFailed, without its two stack traces."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as wrong:
        raise SparkFailed(plain_text(str(wrong))) from wrong


def plain_text(text: str) -> str:
    """The message of an error of Spark; of a KafscaleError from a worker, that error's message."""
    ours = re.findall(r"(?:^|\s)kafscale\.[\w.]+: (.+?)(?:\s*SQLSTATE: \w+)?$", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    return text.split("\n\nJVM stacktrace")[0].split(";\n")[0]
