"""A job in a process of its own, to be killed: `python -m tests.spark.crashing JOB ARGUMENTS`.

Prints a line when the work begins, so that whoever kills it can aim at it. Without Spark the
driver works on its units itself, which takes no time to start.
"""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from kafscale.spark import units
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs import convert, mirror
from kafscale.spark.moving.foreign import Foreign
from kafscale.spark.session import open_session
from kafscale.spark.sink import bulk, sealing
from kafscale.spark.sink.staging import stage

PARTITIONS = 3


def alone(
    _spark: object, some: Sequence[Any], work: Callable[[Any], Any], **_: object
) -> list[Any]:
    return [work(unit) for unit in some]


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


def main() -> None:
    job, arguments = sys.argv[1], json.loads(sys.argv[2])
    bucket = Bucket(arguments.pop("store"))
    scratch = arguments.pop("scratch")
    spark: Any = object()
    if arguments.pop("spark"):
        conf = {"spark.driver.memory": "1g", "spark.local.dir": scratch}
        spark = open_session("crashing", "local[2]", conf)
        spark.range(2, numPartitions=2).mapInArrow(lambda rows: rows, "id bigint").collect()
    else:
        units.run_units = alone
    print("working", flush=True)
    if job == "convert":
        convert.convert(Context(bucket, session=spark), convert.Wanted(**arguments))
    elif job == "mirror":
        mirror.Copy.__new__.__defaults__ = (100_000,)  # many small segments
        context = Context(bucket, (arguments["topic"],), session=spark)
        mirror.mirror(context, Foreign(arguments["source"]))
    elif units.run_units is alone:
        load_alone(bucket, arguments["topic"], arguments["count"])
    else:
        frame = spark.range(arguments["count"], numPartitions=8).selectExpr(
            "string(id % 1000) as key", "repeat(string(id), 5) as value"
        )
        bulk.load(frame, bucket, arguments["topic"], PARTITIONS, compression="lz4")
    print("done", flush=True)


if __name__ == "__main__":
    main()
