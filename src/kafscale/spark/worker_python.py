"""Which Python Spark starts for its workers: it must be one that has this package.

Spark starts `python3` of the PATH unless PYSPARK_PYTHON names another. In a virtual environment
that is not activated this is the system's Python. Spark then does not find the format `kafscale`
and reports DATA_SOURCE_NOT_FOUND.
"""

import os
import shutil
import sys
import warnings
from typing import Final

_SETTINGS: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def use_this_python() -> None:
    """Let sessions that start later run their workers with this interpreter, unless one is set."""
    for name in _SETTINGS:
        os.environ.setdefault(name, sys.executable)


def other_python() -> str | None:
    """The interpreter that Spark will start, if it is in another folder than this one."""
    if any(os.environ.get(name) for name in _SETTINGS):
        return None
    python = shutil.which("python3") or "python3"
    here, there = (os.path.realpath(os.path.dirname(path)) for path in (sys.executable, python))
    return None if here == there else python


def warn_of_other_python() -> None:
    """Warn the caller's caller while a session can still be started otherwise."""
    python = other_python()
    if python is not None:
        warnings.warn(
            f"Spark starts its workers as {python}, not as {sys.executable}, and may not find "
            f"the format kafscale (DATA_SOURCE_NOT_FOUND): set PYSPARK_PYTHON={sys.executable} "
            "before the session starts",
            stacklevel=3,
        )
