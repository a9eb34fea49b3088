"""The pipeline on a virtual topic: the same rows, before and after every job."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.audit import audit
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.compaction.by_key import compact_by_key
from kafscale.spark.jobs.export import export_topic
from kafscale.spark.jobs.retain import retain
from kafscale.spark.jobs.stats import gather
from tests.spark import kafka
from tests.spark.hurried import HurriedBroker
from tests.spark.test_source import frame, rows_of

PARTITIONS = 7
LOGS = 2


@pytest.fixture(scope="module")
def hurried() -> Iterator[HurriedBroker]:
    with HurriedBroker() as broker:
        yield broker


def test_every_job_leaves_the_same_rows(
    spark: SparkSession, hurried: HurriedBroker, tmp_path: Path
) -> None:
    kafka.create(hurried.bootstrap, "many", PARTITIONS, physical_partitions=str(LOGS))
    for turn in range(15):
        kafka.produce(
            hurried.bootstrap,
            "many",
            [(n % PARTITIONS, b"k%d" % n, b"%d-%d" % (turn, n)) for n in range(140)],
        )
    kafka.delete_before(hurried.bootstrap, "many", 3, 25)
    context = Context(Bucket(hurried.store), ("many",), session=spark)
    expected = kafka.consume(hurried.bootstrap, "many", PARTITIONS)
    assert len(expected) == 15 * 140 - 25

    def read() -> list[kafka.Row]:
        return rows_of(frame(spark, hurried.store, "many", includeHeaders=True))

    assert read() == expected
    assert compact(context, tail_idle_s=0).facts
    assert read() == expected
    assert kafka.consume(hurried.bootstrap, "many", PARTITIONS) == expected
    retain(context)
    assert read() == expected
    assert audit(context).exit_code == 0
    (counted,) = gather(context).topics
    stored = sum(one.records for one in counted.partitions)
    assert len(expected) <= stored <= 15 * 140, "deleted ones count while their object is there"
    assert len(counted.partitions) == PARTITIONS
    table = f"file://{tmp_path}/table"
    export_topic(hurried.store, "many", table, spark=spark)
    export_topic(hurried.store, "many", table, spark=spark)
    exported = spark.read.parquet(f"{tmp_path}/table").select("_partition", "_offset").collect()
    assert sorted(map(tuple, exported)) == [(row.partition, row.offset) for row in expected]


def test_the_newest_record_of_a_key_stays_in_each_partition(
    spark: SparkSession, hurried: HurriedBroker
) -> None:
    kafka.create(
        hurried.bootstrap,
        "keyed",
        PARTITIONS,
        physical_partitions=str(LOGS),
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0",
    )
    for turn in range(12):
        kafka.produce(
            hurried.bootstrap,
            "keyed",
            [(partition, b"same", b"%d" % turn) for partition in range(PARTITIONS)],
        )
    context = Context(Bucket(hurried.store), ("keyed",), session=spark)
    compact_by_key(context, tail_idle_s=0)
    rows = rows_of(frame(spark, hurried.store, "keyed", includeHeaders=True))
    newest = {row.partition: (row.offset, row.value) for row in rows}
    assert newest == dict.fromkeys(range(PARTITIONS), (11, b"11"))
    assert len(rows) == PARTITIONS, "each partition's older records went, and no neighbour's"
    assert audit(context).exit_code == 0
