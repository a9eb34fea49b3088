"""The stream reader from trigger to trigger, without Spark."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from kafscale.log.formats import keys
from kafscale.log.formats.segment import NOTHING_BEFORE
from kafscale.model.errors import UnknownTopic
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.source.plan.offsets import DataLost
from kafscale.spark.source.plan.options import read_options
from kafscale.spark.source.rows.columns import WantedColumns
from kafscale.spark.source.stream import StreamReader
from tests.support.topics import Log, build_segment, lay, put_segment
from tests.unit.spark.source.rows.test_reading import START_MS, batches, store_with


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Two partitions of 100 records."""
    log = Log(history=[{0: batches(0, 50)}], tail=[{0: batches(50, 50)}])
    return store_with(tmp_path, "t", 2, [log, log])


def reader(url: str, **given: str) -> StreamReader:
    options = {"store": url, "subscribe": "t", "startingOffsets": "earliest", **given}
    return StreamReader(
        read_options(options, streaming=True), WantedColumns(("partition", "offset"))
    )


def append(url: str, partition: int, first: int, count: int) -> None:
    async def write(store: ObjectStore) -> None:
        lanes = {0: batches(first, count)}
        built = build_segment(first, lanes, NOTHING_BEFORE, token=1)
        await put_segment(store, f"default/t/{partition}", keys.segment_name(first), built, lanes)

    Bucket(url).run(write)


def delete(url: str, topic: str) -> None:
    async def write(store: ObjectStore) -> None:
        await store.delete([row.key for row in await store.find(f"default/{topic}")])

    Bucket(url).run(write)


def rows(one: StreamReader, start: Any, end: Any) -> list[tuple[int, int]]:
    """What workers read, who get the reader as a pickle."""
    there = pickle.loads(pickle.dumps(one))
    return [
        (row["partition"], row["offset"])
        for part in one.partitions(start, end)
        for batch in there.read(pickle.loads(pickle.dumps(part)))
        for row in batch.to_pylist()
    ]


def both(offset: int) -> dict[str, dict[str, int]]:
    return {"t": {"0": offset, "1": offset}}


def test_queries_begin_where_the_options_say(url: str) -> None:
    assert reader(url).initialOffset() == both(0)
    assert reader(url, startingOffsets="latest").initialOffset() == both(100)
    assert reader(url, startingTimestamp=str(START_MS + 30)).initialOffset() == both(30)


def test_batches_hold_exactly_the_offsets_between_two_triggers(url: str) -> None:
    one = reader(url)
    start = one.initialOffset()
    middle = one.latestOffset(start, ReadAllAvailable())
    append(url, 1, 100, 7)
    end = one.latestOffset(middle, ReadAllAvailable())
    assert (middle, end) == (both(100), {"t": {"0": 100, "1": 107}})
    assert rows(one, start, middle) == [(p, n) for p in (0, 1) for n in range(100)]
    assert rows(one, middle, end) == [(1, n) for n in range(100, 107)]
    # After a restart Spark asks for a planned batch again, without asking how far first.
    assert rows(reader(url), middle, end) == [(1, n) for n in range(100, 107)]
    assert rows(one, end, end) == []


def test_limits_are_shared_out(url: str) -> None:
    one = reader(url, maxOffsetsPerTrigger="30")
    assert one.getDefaultReadLimit() == ReadMaxRows(30)
    start = one.initialOffset()
    assert one.latestOffset(start, ReadMaxRows(30)) == both(15)
    assert one.latestOffset(start, ReadAllAvailable()) == both(100)
    assert one.reportLatestOffset() == both(100)


def test_spark_before_limits_asks_without_arguments(url: str) -> None:
    one = reader(url, maxOffsetsPerTrigger="30")
    one.initialOffset()
    assert one.latestOffset() == both(15)
    assert one.latestOffset() == both(30)


def test_too_few_records_wait_for_more(url: str) -> None:
    one = reader(url, minOffsetsPerTrigger="250")
    assert one.getDefaultReadLimit() == ReadMinRows(250)
    start = one.initialOffset()
    assert one.latestOffset(start, ReadMinRows(250)) == start
    append(url, 0, 100, 60)
    assert one.latestOffset(start, ReadMinRows(250)) == {"t": {"0": 160, "1": 100}}
    impatient = reader(url, minOffsetsPerTrigger="999", maxTriggerDelay="0s")
    assert impatient.latestOffset(start, ReadMinRows(999)) == {"t": {"0": 160, "1": 100}}


def test_available_now_ends_where_the_log_ended(url: str) -> None:
    one = reader(url)
    one.prepareForTriggerAvailableNow()
    append(url, 0, 100, 5)
    assert one.latestOffset(both(0), ReadAllAvailable()) == both(100)
    assert one.latestOffset(both(100), ReadAllAvailable()) == both(100)


def test_a_deleted_topic_fails_the_query_or_is_left_out(url: str) -> None:
    one, tolerant = reader(url), reader(url, failOnDataLoss="false")
    delete(url, "t")
    with pytest.raises(DataLost, match="the query followed it"):
        one.latestOffset(both(50), ReadAllAvailable())
    assert tolerant.latestOffset(both(50), ReadAllAvailable()) == {}
    with pytest.raises(UnknownTopic):
        reader(url).initialOffset()


def test_a_topic_created_again_fails_the_query_or_is_read_from_its_start(url: str) -> None:
    delete(url, "t")

    async def again(store: ObjectStore) -> None:
        await lay(store, "t", 1, [Log(tail=[{0: batches(0, 10)}])])

    Bucket(url).run(again)
    with pytest.raises(DataLost, match="t-0 was read up to 50 and ends at 10 now"):
        reader(url).latestOffset({"t": {"0": 50}}, ReadAllAvailable())
    tolerant = reader(url, failOnDataLoss="false")
    end = tolerant.latestOffset({"t": {"0": 50}}, ReadAllAvailable())
    assert end == {"t": {"0": 10}}
    assert rows(tolerant, {"t": {"0": 50}}, end) == [(0, n) for n in range(10)]
