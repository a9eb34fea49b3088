"""Work too small to start a cluster for.

A session takes ten seconds to start; a few megabytes are done by then. Who brings a session or
names a master gets Spark in any case.
Next door: the same through Spark (units.py).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kafscale.spark.execution.units import ShowUnits, run_units
from kafscale.spark.job import Context

U = TypeVar("U")
R = TypeVar("R")


def run_near(
    context: Context,
    units: Sequence[U],
    work: Callable[[U], R],
    *,
    small: bool,
    progress: ShowUnits,
) -> list[R]:
    """Do `work` on every unit, in this process where that is quicker."""
    if small and may_stay(context):
        return do_here(units, work, progress)
    return run_units(context.spark, units, work, progress=progress)


def may_stay(context: Context) -> bool:
    """Whether nobody asked for Spark."""
    return context.session is None and context.master is None


def do_here(units: Sequence[U], work: Callable[[U], R], progress: ShowUnits) -> list[R]:
    """Do `work` on every unit, in this process, one after the other."""
    results = []
    for number, unit in enumerate(units):
        progress(number, len(units))
        results.append(work(unit))
    progress(len(units), len(units))
    return results
