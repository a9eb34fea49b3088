"""Jobs in a process of their own, to be killed: `python -m tests.spark.crashing HOW JOBS`.

Prints "working" when a job begins and "done" when it has ended, so that a test that kills it can
aim.
With a folder for marks every unit of work leaves the number of its process there and takes its
time, so that one can aim at a process while it works on one. Without Spark the driver works on its
units itself, which takes no time to start.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafscale.spark.bucket import Bucket
from kafscale.spark.execution import units
from kafscale.spark.job import Context
from kafscale.spark.jobs import convert, export, mirror
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.compaction.by_key import compact_by_key
from kafscale.spark.session import open_session
from kafscale.spark.sink import bulk, sealing
from kafscale.spark.sink.staging import stage
from kafscale.spark.transfer.foreign import Foreign

PARTITIONS = 3
PAUSE_S = 0.4  # before a marked unit's work, and after it

Work = Callable[[Any], Any]


def alone(_spark: object, some: Sequence[Any], work: Work, **_: object) -> list[Any]:
    return [work(unit) for unit in some]


def marked(folder: str, run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The same work, slowly and under a name that tells who does it."""

    def with_marks(spark: object, some: Sequence[Any], work: Work, **more: Any) -> list[Any]:
        def one(unit: Any) -> Any:
            mark = Path(folder, f"{time.time_ns()}-{os.getpid()}")
            mark.touch()
            time.sleep(PAUSE_S)
            result = work(unit)
            time.sleep(PAUSE_S)
            with contextlib.suppress(FileNotFoundError):  # taken by who aims
                mark.rename(f"{mark}.over")
            return result

        return run(spark, some, one, **more)

    return with_marks


def use(run: Callable[..., list[Any]]) -> None:
    """Have all jobs run their units this way, also those that know the other by its name."""
    before = units.run_units
    for name, module in list(sys.modules.items()):
        if name.startswith("kafscale.spark") and getattr(module, "run_units", None) is before:
            module.run_units = run  # type: ignore[attr-defined]


def load_alone(bucket: Bucket, topic: str, count: int) -> None:
    """What `bulk.load` does, task after task."""
    plan = bulk.begin(bucket, topic, PARTITIONS, compression="lz4")
    sections = []
    for task, first in enumerate(range(0, count, count // 8)):
        numbers = range(first, min(count, first + count // 8))
        rows = pa.RecordBatch.from_pydict(
            {
                "key": [str(number % 1000) for number in numbers],
                "value": [str(number) * 5 for number in numbers],
            }
        )
        sections += stage(plan.target, task, [rows])
    bulk.commit(plan, [sealing.seal(bucket, work) for work in bulk.seals(plan, sections)])
    bulk.tidy_up(plan)


def load(spark: Any, bucket: Bucket, topic: str, count: int, **configs: str) -> None:
    if units.run_units is alone:
        load_alone(bucket, topic, count)
        return
    frame = spark.range(count, numPartitions=8).selectExpr(
        "string(id % 1000) as key", "repeat(string(id), 5) as value"
    )
    bulk.load(frame, bucket, topic, PARTITIONS, compression="lz4", configs=configs)


def do(spark: Any, bucket: Bucket, job: str, arguments: dict[str, Any]) -> None:
    if job == "load":
        load(spark, bucket, **arguments)
        return
    context = Context(bucket, (arguments["topic"],), session=spark)
    if job == "convert":
        convert.convert(context, convert.NewTopicSpec(**arguments))
    elif job == "mirror":
        mirror.Copy.__new__.__defaults__ = (100_000,)  # many small segments
        mirror.mirror(context, Foreign(arguments["source"]))
    elif job == "export":
        small = {"unit_bytes": 1 << 16, "round_bytes": 1 << 18}
        export.run_export(
            context, export.ExportRequest(arguments["table"], arguments["format"], **small)
        )
    elif job == "compact":
        compact(context, target=100_000)
    elif job == "by-key":
        compact_by_key(context, dirty_ratio=0)
    else:
        raise ValueError(job)


def main() -> None:
    how, jobs = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    bucket = Bucket(how["store"])
    spark: Any = object()
    if how["spark"]:
        conf = {"spark.driver.memory": "1g", "spark.local.dir": how["scratch"], **how["conf"]}
        spark = open_session("crashing", how["master"], conf)
        spark.range(2, numPartitions=2).mapInArrow(lambda rows: rows, "id bigint").collect()
    else:
        use(alone)
    if how["marks"]:
        use(marked(how["marks"], units.run_units))
    for job, arguments in jobs:
        print("working", flush=True)
        do(spark, bucket, job, arguments)
        print("done", flush=True)


if __name__ == "__main__":
    main()
