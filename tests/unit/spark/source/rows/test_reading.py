"""Planning and reading topics of every form, laid into a store by hand: no Spark, no broker."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafscale.log.formats import keys
from kafscale.model.errors import CorruptObject, UnknownTopic
from kafscale.objects.files import FileObjectStore
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.source.plan import planning, times
from kafscale.spark.source.plan.filters import EVERYTHING, Bounds
from kafscale.spark.source.plan.offsets import DataLost
from kafscale.spark.source.plan.options import BadOption, Options, read_options
from kafscale.spark.source.plan.splits import Split
from kafscale.spark.source.rows.columns import WantedColumns
from kafscale.spark.source.rows.tasks import read_rows
from kafscale.spark.views import read_views
from tests.support.topics import Lanes, Log, lay, lay_log

START_MS = 1_700_000_000_000


def record(offset: int, size: int = 20) -> Record:
    return Record(offset, START_MS + offset, b"k%d" % offset, b"v" * size, (("h", b"%d" % offset),))


def batches(first: int, count: int, per_batch: int = 5, size: int = 20) -> list[bytes]:
    """Records `first` to `first + count - 1`; every codec in turn."""
    return [
        build_batch(
            [record(n, size) for n in range(at, min(at + per_batch, first + count))],
            base_offset=at,
            codec=list(Codec)[at // per_batch % 5],
        )
        for at in range(first, first + count, per_batch)
    ]


def store_with(root: Path, name: str, partitions: int, logs: list[Log]) -> str:
    async def write() -> None:
        store = FileObjectStore(root / "objects")
        await lay(store, name, partitions, logs)
        await store.aclose()

    asyncio.run(write())
    return f"file://{root}"


def options(url: str, **given: str) -> Options:
    return read_options({"store": url, "subscribe": "t", **given}, streaming=False)


def planned(found: Options, bounds: Bounds = EVERYTHING) -> list[Split]:
    bucket = Bucket(found.store)
    views = planning.views(bucket, found, bounds)
    return planning.cut(bucket, found, planning.windows(bucket, found, views, bounds))


def read(found: Options, *columns: str, bounds: Bounds = EVERYTHING) -> list[dict[str, Any]]:
    wanted = WantedColumns(columns or ("partition", "offset"))
    return [
        row
        for split in planned(found, bounds)
        for one in read_rows(found, wanted, split, bounds.since_ms)
        for row in one.to_pylist()
    ]


def offsets(rows: list[dict[str, Any]], partition: int = 0) -> list[int]:
    return [row["offset"] for row in rows if row["partition"] == partition]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Two partitions: history and tail, each object of 50 records."""
    log = Log(
        history=[{0: batches(at, 50)} for at in (0, 50)],
        tail=[{0: batches(at, 50)} for at in (100, 150)],
    )
    return store_with(tmp_path, "t", 2, [log, log])


def test_history_and_tail_are_read_as_one(url: str) -> None:
    rows = read(options(url))
    assert offsets(rows, 0) == offsets(rows, 1) == list(range(200))


def test_all_columns_are_there(url: str) -> None:
    rows = read(options(url), "key", "value", "topic", "offset", "headers", "timestampType")
    assert rows[7] == {
        "key": b"k7",
        "value": b"v" * 20,
        "topic": "t",
        "offset": 7,
        "headers": [{"key": "h", "value": b"7"}],
        "timestampType": 0,
    }


def test_lanes_of_shared_logs_are_partitions(tmp_path: Path) -> None:
    def lanes(at: int) -> Lanes:
        return {0: batches(at, 10), 1: batches(at, 20), 3: batches(at * 2, 5)}

    first = Log(history=[lanes(0)], tail=[{1: batches(20, 10), 2: batches(0, 3)}])
    other = Log(tail=[{1: batches(0, 4)}])
    rows = read(options(store_with(tmp_path, "t", 8, [first, other])))
    assert [len(offsets(rows, p)) for p in range(8)] == [10, 0, 30, 4, 3, 0, 5, 0]
    assert offsets(rows, 2) == list(range(30))


@pytest.mark.parametrize("given", [{}, {"minPartitions": "7"}, {"maxRecordsPerPartition": "13"}])
def test_windows_hold_exactly_the_offsets_asked_for(url: str, given: dict[str, str]) -> None:
    found = options(
        url,
        startingOffsets='{"t": {"0": 33, "1": -2}}',
        endingOffsets='{"t": {"0": 171, "1": 60}}',
        **given,
    )
    rows = read(found)
    assert offsets(rows, 0) == list(range(33, 171))
    assert offsets(rows, 1) == list(range(60))
    assert len(planned(found)) >= int(given.get("minPartitions", 1))


def test_times_become_offsets(url: str) -> None:
    found = options(url, startingTimestamp=str(START_MS + 42), endingTimestamp=str(START_MS + 117))
    assert offsets(read(found)) == list(range(42, 117))
    with pytest.raises(BadOption, match="no record at or after"):
        read(options(url, startingTimestamp=str(START_MS + 500)))
    late = {"startingTimestamp": str(START_MS + 500)}
    assert read(options(url, startingOffsetsByTimestampStrategy="latest", **late)) == []


def test_the_first_record_not_older_is_found_anywhere(url: str) -> None:
    bucket = Bucket(url)
    (view, _) = read_views(bucket, bucket.topic("t"))
    for offset in (0, 1, 49, 50, 99, 149, 199):
        assert times.first_at_or_after(bucket, view, START_MS + offset) == offset
    assert times.first_at_or_after(bucket, view, START_MS + 200) is None


def test_bounds_prune_partitions_objects_and_batches(url: str) -> None:
    bounds = Bounds(partitions=frozenset([1]), first=60, until=70)
    (split,) = planned(options(url), bounds)
    assert [len(one.stored_ranges) for one in split] == [1]
    assert offsets(read(options(url), bounds=bounds), 1) == list(range(60, 70))
    young = Bounds(partitions=frozenset([0]), since_ms=START_MS + 163)
    # Batches are passed over as a whole: the five records of one batch stay together.
    assert offsets(read(options(url), bounds=young)) == list(range(160, 200))


def test_a_log_start_inside_an_object_hides_what_is_before(tmp_path: Path) -> None:
    url = store_with(tmp_path, "t", 1, [Log(history=[{0: batches(0, 50)}], starts={0: 17})])
    assert offsets(read(options(url))) == list(range(17, 50))
    with pytest.raises(DataLost, match="offsets 3 to 16"):
        read(options(url, startingOffsets='{"t": {"0": 3}}'))
    found = options(url, startingOffsets='{"t": {"0": 3}}', failOnDataLoss="false")
    assert offsets(read(found)) == list(range(17, 50))


def test_large_objects_are_cut_where_the_index_says(tmp_path: Path) -> None:
    url = store_with(tmp_path, "t", 1, [Log(history=[{0: batches(0, 1000, 10, 25000)}])])
    found = options(url, splitBytes=str(1 << 20))
    splits = planned(found)
    lengths = [sum(s.length for one in split for s in one.stored_ranges) for split in splits]
    assert len(splits) > 2
    assert max(lengths) < 2 << 20
    assert offsets(read(found)) == list(range(1000))
    narrow = options(url, startingOffsets='{"t": {"0": 495}}', endingOffsets='{"t": {"0": 505}}')
    (split,) = planned(narrow)
    assert split[0].stored_ranges[0].length < lengths[0]
    assert offsets(read(narrow)) == list(range(495, 505))


def test_an_object_of_one_large_batch_cannot_be_cut(tmp_path: Path) -> None:
    url = store_with(tmp_path, "t", 1, [Log(history=[{0: batches(0, 60, 60, 100)}])])
    assert list((tmp_path / "objects").rglob("*.index"))
    found = options(url, splitBytes="100")
    assert offsets(read(found, bounds=Bounds(first=40))) == list(range(40, 60))


def test_a_wrong_index_is_not_believed(tmp_path: Path) -> None:
    url = store_with(tmp_path, "t", 1, [Log(history=[{0: batches(0, 1000, 10, 25000)}])])
    (path,) = (tmp_path / "objects").rglob("*.index")
    data = bytearray(path.read_bytes())
    for at in range(16 + 8, len(data), 12):
        data[at + 3] ^= 1  # every position points into a batch
    path.write_bytes(data)
    found = options(url, splitBytes=str(1 << 20))
    assert len(planned(found)) == 1
    assert offsets(read(found)) == list(range(1000))


def replace_objects(url: str, log: int, lanes: Lanes | None = None) -> None:
    """What a roll-up does: the same batches in one object, named by a newer manifest."""

    async def roll_up(store: Any) -> None:
        folder = keys.log_folder("default/t", log)
        await store.delete([row.key for row in await store.find(folder)])
        await lay_log(store, folder, Log(history=[lanes or {0: batches(0, 200)}]))

    Bucket(url).run(roll_up)


def test_objects_replaced_since_the_planning_are_looked_up_again(url: str) -> None:
    found = options(url, assign='{"t": [0]}', subscribe="")
    (split,) = planned(found)
    replace_objects(url, 0)
    rows = [
        row
        for one in read_rows(found, WantedColumns(("offset",)), split, None)
        for row in one.to_pylist()
    ]
    assert [row["offset"] for row in rows] == list(range(200))


def test_objects_may_be_replaced_under_more_partitions_than_python_calls_deep(
    tmp_path: Path,
) -> None:
    one = batches(0, 2)
    lanes = dict.fromkeys(range(1200), one)
    url = store_with(tmp_path, "t", 1200, [Log(tail=[lanes])])
    found = options(url)
    (split,) = planned(found)
    replace_objects(url, 0, lanes)
    rows = [len(some) for some in read_rows(found, WantedColumns(("offset",)), split, None)]
    assert sum(rows) == 2400


def test_objects_that_stay_away_are_named(url: str, tmp_path: Path) -> None:
    found = options(url, assign='{"t": [0]}', subscribe="")
    (split,) = planned(found)
    replace_objects(url, 0)
    (path,) = (tmp_path / "objects/default/t/0").glob("segment-*.kfs")
    path.unlink()
    with pytest.raises(CorruptObject, match=f"{path.name} is named by the log and not there"):
        list(read_rows(found, WantedColumns(("offset",)), split, None))


def test_a_truncated_object_is_named(url: str, tmp_path: Path) -> None:
    found = options(url)
    splits = planned(found)
    path = sorted((tmp_path / "objects/default/t/0").glob("*.kfs"))[0]
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CorruptObject, match=path.name):
        [list(read_rows(found, WantedColumns(("offset",)), split, None)) for split in splits]


def test_a_flush_that_cannot_be_read_is_not_passed_over(url: str, tmp_path: Path) -> None:
    path = tmp_path / f"objects/default/t/0/{keys.segment_name(150)}"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptObject, match=path.name):
        planned(options(url))


def test_topics_that_are_not_there_are_named(url: str) -> None:
    with pytest.raises(UnknownTopic, match="missing"):
        planned(options(url, subscribe="missing"))
    with pytest.raises(UnknownTopic, match="partitions 0 to 1"):
        planned(options(url, subscribe="", assign='{"t": [2]}'))
    assert planned(options(url, subscribe="", subscribePattern="no.*")) == []


def test_topics_by_pattern(url: str) -> None:
    assert len(read(options(url, subscribe="", subscribePattern="[st]"))) == 400


def test_the_table_of_batches_tells_what_the_headers_say(url: str) -> None:
    columns = ("partition", "offset", "lastOffset", "records", "codec", "object", "position")
    rows = read(options(url, table="batches", minPartitions="5"), *columns)
    mine = [row for row in rows if row["partition"] == 0]
    assert [row["offset"] for row in mine] == list(range(0, 200, 5))
    assert {row["codec"] for row in mine} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert mine[0]["position"] == 32
    assert all(row["records"] == 5 and row["lastOffset"] == row["offset"] + 4 for row in mine)


def test_the_table_of_segments_lists_objects(url: str) -> None:
    from kafscale.spark.source.source import BatchReader

    columns = ("partition", "offset", "lastOffset", "records", "kind")
    reader = BatchReader(options(url, table="segments"), WantedColumns(columns))
    (partition,) = reader.partitions()
    rows = [row for one in reader.read(partition) for row in one.to_pylist()]
    assert [(r["offset"], r["lastOffset"], r["records"], r["kind"]) for r in rows[:4]] == [
        (0, 49, 50, "history"),
        (50, 99, 50, "history"),
        (100, 149, 50, "flush"),
        (150, 199, 50, "flush"),
    ]


def test_objects_replaced_under_one_partition_do_not_hurt_the_others(url: str) -> None:
    found = options(
        url, startingOffsets='{"t": {"0": 3, "1": 60}}', endingOffsets='{"t": {"0": 62, "1": 190}}'
    )
    (split,) = planned(found)
    replace_objects(url, 1)
    rows = [
        row
        for one in read_rows(found, WantedColumns(("partition", "offset")), split, None)
        for row in one.to_pylist()
    ]
    assert offsets(rows, 0) == list(range(3, 62))
    assert offsets(rows, 1) == list(range(60, 190))


def test_gaps_that_key_compaction_left_stay_gaps(tmp_path: Path) -> None:
    kept = [0, 3, 7, 12, 19]
    thin = [build_batch([record(n) for n in kept], base_offset=0)]
    url = store_with(tmp_path, "t", 1, [Log(history=[{0: thin}], tail=[{0: batches(20, 10)}])])
    assert offsets(read(options(url))) == [*kept, *range(20, 30)]
    some = options(url, startingOffsets='{"t": {"0": 4}}', endingOffsets='{"t": {"0": 22}}')
    assert offsets(read(some)) == [7, 12, 19, 20, 21]
