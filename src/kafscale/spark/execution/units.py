"""Unit mode: Spark schedules pieces of work, the bytes never leave the Python worker.

A unit is anything that can be pickled; the work on it gives a few small results. Spark may run
a unit twice (a retry, a speculative copy), so work writes under names unique to its attempt
and nothing counts before the driver has committed it.
Next door: rows that do enter Spark SQL (source/source.py).
"""

import gc
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

U = TypeVar("U")
R = TypeVar("R")

ShowUnits = Callable[[int, int], None]  # units done, units in all

_POLL_S = 0.5


def run_units(
    spark: SparkSession,
    units: Sequence[U],
    work: Callable[[U], R],
    *,
    progress: ShowUnits | None = None,
) -> list[R]:
    """Do `work` on every unit somewhere in the cluster; return results in the order of the units.

    One task per unit: a unit should be worth a second or so (64 MB and more).
    """
    if not units:
        return []
    boxed = [pickle.dumps(unit) for unit in units]

    def on_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark collects garbage after every task, over all objects of the libraries: 40 ms.
        gc.freeze()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps(work(pickle.loads(boxed[number])))
                yield pa.RecordBatch.from_pydict(
                    {"unit": pa.array([number], pa.int64()), "result": pa.array([result])}
                )

    frame = spark.range(len(units), numPartitions=len(units)).mapInArrow(
        on_worker, "unit bigint, result binary"
    )
    with _watched(spark, len(units), progress):
        rows = frame.collect()
    if progress is not None:
        progress(len(units), len(units))
    results: dict[int, R] = {row["unit"]: pickle.loads(row["result"]) for row in rows}
    return [results[number] for number in range(len(units))]


class _watched:  # noqa: N801 - used as a statement
    """Report how many tasks are done while a query runs, where Spark says so (not on Connect)."""

    def __init__(self, spark: SparkSession, total: int, progress: ShowUnits | None) -> None:
        self._total = total
        self._progress = progress
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._context: Any = None if progress is None else getattr(spark, "sparkContext", None)

    def __enter__(self) -> None:
        if self._context is not None:
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        tracker = self._context.statusTracker()
        assert self._progress is not None
        while not self._over.wait(_POLL_S):
            stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            self._progress(min(done, self._total), self._total)
