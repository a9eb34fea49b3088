import pytest

from kafscale.records.compression import Codec
from kafscale.settings.config import Config
from kafscale.settings.sections import CacheSection
from kafscale.settings.values import Size
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from tests.unit.gateways.kafka.caller import NOW_MS, Caller, make_batch
from tests.unit.gateways.kafka.settings import changed

LATEST, EARLIEST, GREATEST = -1, -2, -3
# Nothing stays in memory: times are looked up in the objects.
COLD = changed(FOR_TESTS, cache=CacheSection(tail_cache_size=Size(0)))


async def fill(caller: Caller) -> None:
    """Three batches of three records, a second apart each, packed three ways."""
    await caller.create("t")
    for number, codec in enumerate((Codec.NONE, Codec.GZIP, Codec.ZSTD)):
        batch = make_batch(b"a", b"b", b"c", timestamp_ms=NOW_MS + 1000 * number, codec=codec)
        assert (await caller.produce("t", batch)).base_offset == 3 * number


@pytest.mark.parametrize("version", range(1, 12))
async def test_the_ends_of_a_log(caller: Caller, version: int) -> None:
    await fill(caller)
    for timestamp, offset in ((LATEST, 9), (EARLIEST, 0)):
        row = await caller.offset("t", timestamp, version=version)
        assert (row.error_code, row.offset, row.timestamp) == (0, offset, -1)
        assert row.leader_epoch == (0 if version >= 4 else -1)


BY_TIME = [  # (asked, offset, found), in ms after the first record
    (-5, 0, 0),
    (0, 0, 0),
    (1, 1, 1),
    (2, 2, 2),
    (3, 3, 1000),
    (1001, 4, 1001),
    (1500, 6, 2000),
    (2002, 8, 2002),
]


@pytest.mark.parametrize("config", [FOR_TESTS, COLD], ids=["memory", "objects"])
async def test_by_time_the_answer_is_the_very_record(config: Config) -> None:
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        await fill(caller)
        for version in (1, 7):
            for asked, offset, found in BY_TIME:
                row = await caller.offset("t", NOW_MS + asked, version=version)
                assert (row.error_code, row.offset, row.timestamp) == (0, offset, NOW_MS + found)
            row = await caller.offset("t", NOW_MS + 2003, version=version)
            assert (row.error_code, row.offset, row.timestamp) == (0, -1, -1)


async def test_the_greatest_time_may_lie_in_the_middle(caller: Caller) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"early", timestamp_ms=NOW_MS))
    await caller.produce("t", make_batch(b"x", b"late", timestamp_ms=NOW_MS + 999, codec=Codec.LZ4))
    await caller.produce("t", make_batch(b"middle", timestamp_ms=NOW_MS + 500))
    row = await caller.offset("t", GREATEST)
    assert (row.offset, row.timestamp) == (2, NOW_MS + 1000)


async def test_the_greatest_time_needs_version_7(caller: Caller) -> None:
    await fill(caller)
    for version in (1, 6):
        row = await caller.offset("t", GREATEST, version=version)
        assert row.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("timestamp", "since", "offset"), [(-4, 8, 0), (-5, 9, -1), (-6, 11, -1)])
async def test_questions_about_tiers_are_answered_as_without_remote_storage(
    caller: Caller, timestamp: int, since: int, offset: int
) -> None:
    await fill(caller)
    row = await caller.offset("t", timestamp, version=since - 1)
    assert row.error_code == ErrorCode.UNSUPPORTED_VERSION
    row = await caller.offset("t", timestamp, version=since)
    assert (row.error_code, row.offset, row.timestamp) == (0, offset, -1)


async def test_no_other_negative_timestamp_has_a_meaning(caller: Caller) -> None:
    await fill(caller)
    assert (await caller.offset("t", -7, version=11)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_an_empty_log_begins_and_ends_at_0_and_has_no_times(caller: Caller) -> None:
    await caller.create("t")
    found = [
        (row.error_code, row.offset, row.timestamp)
        for row in [await caller.offset("t", when) for when in (LATEST, EARLIEST, GREATEST, NOW_MS)]
    ]
    assert found == [(0, 0, -1), (0, 0, -1), (0, -1, -1), (0, -1, -1)]


@pytest.mark.parametrize(
    ("timestamp", "most", "offsets"),
    [(LATEST, 1, [9]), (LATEST, 5, [9, 0]), (EARLIEST, 5, [0]), (LATEST, 0, []), (LATEST, -1, [])],
)
async def test_version_0_gives_a_list(
    caller: Caller, timestamp: int, most: int, offsets: list[int]
) -> None:
    await fill(caller)
    row = await caller.offset("t", timestamp, version=0, max_num_offsets=most)
    assert (row.error_code, row.old_style_offsets) == (0, offsets)


@pytest.mark.parametrize(
    ("step", "code"), [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_another_leader_epoch_is_refused(
    broker: InProcessBroker, caller: Caller, step: int, code: ErrorCode
) -> None:
    await caller.create("t")
    await broker.restart()
    epoch = broker.engine.identity.epoch
    async with Caller(broker.port) as later:
        row = await later.offset("t", LATEST, leader_epoch=epoch + step)
        assert (row.error_code, row.offset) == (code, -1)
        assert (await later.offset("t", LATEST, leader_epoch=epoch)).error_code == 0


async def test_what_does_not_exist_is_unknown(caller: Caller) -> None:
    await caller.create("t")
    for topic, partition in (("missing", 0), ("t", 1), ("t", -1)):
        row = await caller.offset(topic, LATEST, partition=partition)
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
