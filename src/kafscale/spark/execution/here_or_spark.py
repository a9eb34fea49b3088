"""Work that is too small to start Spark for runs in this process.

A session takes ten seconds to start; a few megabytes are done by then. A caller that brings a
session or names a master always gets Spark.
Next door: the same work on Spark (units.py).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kafscale.spark.execution.units import ShowUnits, run_units
from kafscale.spark.job import Context

U = TypeVar("U")
R = TypeVar("R")


def run_here_or_on_spark(
    context: Context,
    units: Sequence[U],
    work: Callable[[U], R],
    *,
    small: bool,
    progress: ShowUnits,
) -> list[R]:
    """Do `work` on every unit, in this process where that is quicker."""
    if small and may_run_here(context):
        return run_here(units, work, progress)
    return run_units(context.spark, units, work, progress=progress)


def may_run_here(context: Context) -> bool:
    """Whether the caller left it open where work runs."""
    return context.session is None and context.master is None


def run_here(units: Sequence[U], work: Callable[[U], R], progress: ShowUnits) -> list[R]:
    """Do `work` on every unit, in this process, one after the other."""
    results = []
    for number, unit in enumerate(units):
        progress(number, len(units))
        results.append(work(unit))
    progress(len(units), len(units))
    return results
