"""Key compaction by the owner of a log."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.upkeep import cleanable, retention, rollup, sweep
from kafscale.log.upkeep.background_work import BackgroundWork
from kafscale.log.upkeep.cleanable import CompactedLanes, CompactionLimits, is_too_large
from kafscale.log.upkeep.compaction import (
    Compacted,
    compact,
    covers,
)
from kafscale.log.writer.log import Log
from kafscale.model.topics import TopicDefaults, TopicSettings
from kafscale.objects.memory import MemoryObjectStore
from kafscale.records import batch, record
from kafscale.records.compression import Codec
from kafscale.records.control import control_batch, marker_batch
from kafscale.records.record import Record
from kafscale.testing.faulty_store import Fault, Rule
from tests.support.examples import scaled
from tests.unit.log.log_harness import NOW_MS, LogHarness, append, committed

DAY_MS = 86_400_000
LIMITS = CompactionLimits(log_bytes=1 << 30, memory_bytes=1 << 26, cpu_share=0.5)

Row = tuple[bytes | None, bytes | None]
Kept = tuple[int, bytes | None, bytes | None]


def topic(**configs: str) -> TopicSettings:
    """The settings of a compacted topic, names with underscores."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return TopicSettings.of({"cleanup.policy": "compact", **named}, TopicDefaults())


def batch_of(
    rows: Sequence[Row], codec: Codec = Codec.NONE, timestamp_ms: int = NOW_MS, producer: int = -1
) -> memoryview:
    records = [Record(at, timestamp_ms, key, value) for at, (key, value) in enumerate(rows)]
    data = record.build_batch(
        records,
        base_offset=0,
        codec=codec,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
    )
    return memoryview(bytearray(data))


async def put(log: Log, *rows: Row, lane: int = 0, codec: Codec = Codec.NONE) -> int:
    at_ms = log.clock.now_ms()
    return await committed(append(log, batch_of(rows, codec, at_ms), lane))


async def clean(
    log: Log,
    of: TopicSettings | None = None,
    lanes: Sequence[int] | None = None,
    limits: CompactionLimits = LIMITS,
) -> Compacted | None:
    """Compact what is due, once; None if nothing is."""
    lanes = list(log.lanes) if lanes is None else lanes
    part = cleanable.find_cleanable(
        log.committed.manifest, [CompactedLanes(of or topic(), lanes)], log.clock.now_ms()
    )
    if part is None:
        return None
    return await compact(log, part, limits, BackgroundWork(log.clock, limits.cpu_share), merge=True)


def rows_in(pieces: Sequence[memoryview]) -> list[Kept]:
    return [
        (row.offset, row.key, row.value)
        for piece in pieces
        for at, header in batch.walk(piece)
        if not header.is_control
        for row in record.open_batch(piece[at : at + header.size], 1 << 20)
    ]


async def left(harness: LogHarness, log: Log, lane: int = 0) -> list[Kept]:
    """What a client of this broker reads from the beginning, memory first."""
    reader, found, offset = harness.reader(), [], log.lane(lane).start
    while offset < log.lane(lane).high:
        place = log.lane(lane)
        pieces = place.read_memory(offset, 1 << 20, at_least_one=True)
        if pieces is None:
            pieces = await reader.read(log, place, offset, 300, at_least_one=True)
        assert pieces, f"a consumer at {offset} would wait although {place.high} is the end"
        headers = [header for piece in pieces for _, header in batch.walk(piece)]
        assert headers[-1].next_offset > offset
        found += [row for row in rows_in(pieces) if row[0] >= offset]
        offset = headers[-1].next_offset
    return found


A1, A2, B1 = (b"a", b"1"), (b"a", b"2"), (b"b", b"1")


async def test_the_newest_value_of_each_key_stays_at_its_offset(harness: LogHarness) -> None:
    log = await harness.open()
    await put(log, A1, B1)
    await put(log, A2)
    await rollup.roll_up(log)
    done = await clean(log)
    assert done is not None
    assert done.is_committed
    assert done.removed_records == 1
    assert await left(harness, log) == [(1, *B1), (2, *A2)], "the running broker serves it at once"
    assert await left(harness, await harness.open()) == [(1, *B1), (2, *A2)]
    assert await clean(log) is None, "nothing is new"


async def test_the_tail_is_left_alone_and_not_learnt_from(harness: LogHarness) -> None:
    log = await harness.open()
    await put(log, A1)
    await put(log, B1)
    await rollup.roll_up(log)
    await put(log, A2)
    done = await clean(log)
    assert done is not None
    assert not done.removed_records
    assert await left(harness, log) == [(0, *A1), (1, *B1), (2, *A2)]


async def test_records_without_a_key_stay(harness: LogHarness) -> None:
    log = await harness.open()
    await put(log, (None, b"1"), (None, None), A1, A2)
    await rollup.roll_up(log)
    await clean(log)
    assert await left(harness, log) == [(0, None, b"1"), (1, None, None), (3, *A2)]


async def test_a_tombstone_goes_a_while_after_it_has_been_compacted(harness: LogHarness) -> None:
    log = await harness.open()
    await put(log, A1, B1)
    await put(log, (b"a", None))
    await rollup.roll_up(log)
    harness.clock.advance_ms(30 * DAY_MS)
    await clean(log)
    assert await left(harness, log) == [(1, *B1), (2, b"a", None)], (
        "its age counts from the compaction"
    )
    harness.clock.advance_ms(DAY_MS - 1)
    for _ in range(20):
        await put(log, (b"c", b"1" * 20))
    await rollup.roll_up(log)
    await clean(log)
    assert (2, b"a", None) in await left(harness, log)
    harness.clock.advance_ms(1)
    for _ in range(40):
        await put(log, (b"d", b"1" * 20))
    await rollup.roll_up(log)
    await clean(log)
    assert [key for _, key, _ in await left(harness, log)] == [b"b", b"c", b"d"]


async def test_young_records_stay_and_old_ones_are_due_whatever_the_ratio(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    await put(log, A1, A1)
    await rollup.roll_up(log)
    assert await clean(log, topic(min_compaction_lag_ms="1000")) is None
    harness.clock.advance_ms(1000)
    await put(log, A2)
    await rollup.roll_up(log)
    await clean(log, topic(min_compaction_lag_ms="1000"))
    assert await left(harness, log) == [(1, *A1), (2, *A2)]
    harness.clock.advance_ms(5000)
    lazy = {"min_cleanable_dirty_ratio": "0.9"}
    assert await clean(log, topic(**lazy)) is None
    assert await clean(log, topic(**lazy, max_compaction_lag_ms="4999")) is not None
    assert await left(harness, log) == [(2, *A2)]


async def test_lanes_have_their_own_keys_and_settings(harness: LogHarness) -> None:
    log = await harness.open()
    for value in (b"1", b"2", b"3"):
        for lane in (0, 1, 2):
            await put(log, (b"a", value), lane=lane)
    await rollup.roll_up(log)
    done = await clean(log, lanes=[0, 2])
    assert done is not None
    assert done.removed_records == 4
    for place in (log, await harness.open()):
        assert await left(harness, place, 0) == [(2, b"a", b"3")]
        assert [row[0] for row in await left(harness, place, 1)] == [0, 1, 2]
        assert await left(harness, place, 2) == [(2, b"a", b"3")]


async def test_offsets_producers_and_control_batches_survive(harness: LogHarness) -> None:
    log = await harness.open()
    sent = batch_of([A1], producer=7)
    again = memoryview(bytearray(sent))
    await committed(append(log, sent))
    await committed(append(log, memoryview(control_batch(NOW_MS, 9))))
    for _ in range(3):
        await put(log, A2)
    await rollup.roll_up(log)
    await clean(log)
    other = await harness.open()
    assert await left(harness, other) == [(4, *A2)]
    assert other.lane(0).high == 5
    assert append(other, again).is_duplicate, "the retry of a batch that compaction emptied"
    (entry,) = other.committed.manifest.segments
    data = await harness.inner.read(f"{other.folder}/{entry.name}")
    span = entry.spans()[0]
    headers = [h for _, h in batch.walk(data, span.start, span.start + span.length)]
    assert [(h.base_offset, h.is_control) for h in headers] == [(0, False), (1, True), (4, False)]


async def test_nothing_beyond_an_open_transaction_is_touched(harness: LogHarness) -> None:
    log = await harness.open()
    await put(log, A1, A1)
    doubtful = bytearray(batch_of([A2, A2], producer=5))
    doubtful[22] |= batch.TRANSACTIONAL
    batch.sign(doubtful)
    await committed(append(log, memoryview(doubtful)))
    await put(log, A2)
    await rollup.roll_up(log)
    await clean(log)
    assert [row[0] for row in await left(harness, log)] == [1, 2, 3, 4]


@pytest.mark.parametrize("is_commit", [True, False])
async def test_records_of_aborted_transactions_neither_stay_nor_shadow_others(
    harness: LogHarness, is_commit: bool
) -> None:
    log = await harness.open()
    await put(log, A1)
    doubtful = bytearray(batch_of([A2], producer=5))
    doubtful[22] |= batch.TRANSACTIONAL
    batch.sign(doubtful)
    await committed(append(log, memoryview(doubtful)))
    marker = memoryview(marker_batch(5, 0, 1, NOW_MS, committed=is_commit))
    await committed(append(log, marker))
    await rollup.roll_up(log)
    await clean(log)
    kept = [row for row in await left(harness, log) if row[1] == A1[0]]
    assert kept == [(1, *A2)] if is_commit else [(0, *A1)]


async def test_keys_that_do_not_fit_are_for_the_next_pass(harness: LogHarness) -> None:
    log = await harness.open()
    for _ in range(2):
        for number in range(50):
            await put(log, (b"%d" % number, b"v"))
    await rollup.roll_up(log)
    small = CompactionLimits(log_bytes=1 << 30, memory_bytes=2 * 2000, cpu_share=1.0)
    small_parts = 0
    while True:
        part = cleanable.find_cleanable(
            log.committed.manifest, [CompactedLanes(topic(), [0])], NOW_MS, 1e-9
        )
        if part is None:
            break
        # Whatever the object's size: the test is about keys.
        done = await compact(log, part, small, BackgroundWork(log.clock, 1.0), merge=True)
        small_parts += 1
        assert done.is_committed
        assert covers(part, done.reached) == (done.reached[0] == 100)
    assert small_parts > 5
    assert [row[0] for row in await left(harness, log)] == list(range(50, 100))


async def test_small_neighbours_become_one_object(harness: LogHarness) -> None:
    log = await harness.open()
    for number in range(4):
        await put(log, A1, (b"%d" % number, b"v"))
        await rollup.roll_up(log)
    assert len(log.committed.manifest.segments) == 4
    await clean(log)
    (entry,) = log.committed.manifest.segments
    assert (entry.base, entry.end, entry.records) == (0, 8, 5)


async def test_what_is_large_is_told_apart() -> None:
    entries = tuple(SegmentEntry(str(n), n, n + 1, 100, 1, 0, 0, 0, 0, False) for n in range(5))
    part = cleanable.Cleanable({0: 5}, entries, entries, 500, {0: 0}, False)
    assert not is_too_large(part, CompactionLimits(500, 200, 0.1))
    assert is_too_large(part, CompactionLimits(499, 200, 0.1))
    assert is_too_large(part, CompactionLimits(500, 199, 0.1)), "an object needs half the memory"


# -- beside others ---------------------------------------------------------------------------------


async def test_batches_that_come_meanwhile_and_roll_ups_go_on(harness: LogHarness) -> None:
    log = await harness.open()
    for _ in range(3):
        await put(log, A1)
    await rollup.roll_up(log)
    part = cleanable.find_cleanable(log.committed.manifest, [CompactedLanes(topic(), [0])], NOW_MS)
    assert part is not None
    await put(log, A2)
    await rollup.roll_up(log)  # a new generation between plan and commit
    done = await compact(log, part, LIMITS, BackgroundWork(log.clock, 1.0), merge=True)
    assert done.is_committed
    assert await left(harness, log) == [(2, *A1), (3, *A2)]


async def test_objects_that_another_process_rewrote_are_left_alone(harness: LogHarness) -> None:
    log = await harness.open()
    for _ in range(3):
        await put(log, A1)
    await rollup.roll_up(log)
    other = await harness.open()
    await clean(other)
    done = await clean(log)
    assert done is not None
    assert not done.is_committed
    assert log.committed.manifest.generation == other.committed.manifest.generation
    assert await left(harness, log) == [(2, *A1)], "what the other left, at once"
    assert await clean(log) is None


@pytest.mark.parametrize("hears_of_it", [True, False])
async def test_outputs_that_were_swept_meanwhile_are_not_named(
    harness: LogHarness, monkeypatch: pytest.MonkeyPatch, hears_of_it: bool
) -> None:
    log = await harness.open()
    for _ in range(3):
        await put(log, A1)
    await rollup.roll_up(log)
    honest = rollup.write_anew

    async def slow(*args, **how):  # type: ignore[no-untyped-def]
        entry = await honest(*args, **how)
        for _ in range(4):  # the owner sleeps; another one sweeps: condemned, then deleted
            harness.clock.advance_ms(700_000)
            await sweep.sweep(other)
            await put(other, B1)
            await rollup.roll_up(other)
        if hears_of_it:
            await log.adopt_foreign()
        return entry

    other = await harness.open()
    monkeypatch.setattr("kafscale.log.upkeep.compaction.rollup.write_anew", slow)
    done = await clean(log)
    assert done is not None
    assert not done.is_committed
    fresh = await harness.open()
    assert [row[0] for row in await left(harness, fresh)] == list(range(7)), "all is readable"


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
@pytest.mark.parametrize("key", ["*manifest*", "*.kfs", "*.index"])
async def test_answers_that_are_lost_change_nothing(
    harness: LogHarness, fault: Fault, key: str
) -> None:
    log = await harness.open()
    for _ in range(3):
        await put(log, A1)
    await rollup.roll_up(log)
    harness.plan.add(Rule(fault, "put_new", key, times=1))
    done = await clean(log)
    assert done is not None
    assert done.is_committed
    assert await left(harness, log) == [(2, *A1)]


async def test_a_log_that_closes_meanwhile_keeps_what_it_had(harness: LogHarness) -> None:
    log = await harness.open()
    for _ in range(3):
        await put(log, A1)
    await rollup.roll_up(log)
    part = cleanable.find_cleanable(log.committed.manifest, [CompactedLanes(topic(), [0])], NOW_MS)
    assert part is not None
    await log.abandon()
    done = await compact(log, part, LIMITS, BackgroundWork(log.clock, 1.0), merge=True)
    assert not done.is_committed
    assert len(await left(harness, await harness.open())) == 3


async def test_a_broken_object_is_named_and_nothing_is_rewritten(harness: LogHarness) -> None:
    log = await harness.open()
    for _ in range(3):
        await put(log, A1)
    await rollup.roll_up(log)
    (entry,) = log.committed.manifest.segments
    key = f"{log.folder}/{entry.name}"
    body = bytearray(await harness.store.read(key))
    body[100] ^= 1
    await harness.store.delete([key])
    await harness.store.put_new(key, [body])
    told: list[str] = []
    log.observer.found_broken = told.append
    done = await clean(log)
    assert done is not None
    assert (done.broken, told) == (entry.name, [entry.name])
    assert log.committed.manifest.segments == [entry]


async def test_an_object_that_is_gone_ends_the_work(harness: LogHarness) -> None:
    log = await harness.open()
    for _ in range(3):
        await put(log, A1)
    await rollup.roll_up(log)
    await harness.store.delete([f"{log.folder}/{log.committed.manifest.segments[0].name}"])
    done = await clean(log)
    assert done is not None
    assert not done.is_committed
    assert not done.broken


# -- by the rules of Kafka, with any input -------------------------------------------------------

keys = st.sampled_from([b"a", b"b", b"c", b"d", None])
values = st.one_of(st.none(), st.binary(max_size=8))
batches = st.lists(
    st.tuples(keys, values).map(lambda row: row if row[0] else (None, row[1] or b"")),
    min_size=1,
    max_size=6,
)
produced = st.tuples(st.just("put"), st.integers(0, 1), batches, st.sampled_from(list(Codec)))
steps = st.lists(
    st.one_of(
        produced,
        produced,
        produced,
        st.tuples(st.just("roll up")),
        st.tuples(st.just("compact"), st.sampled_from([600, 1 << 20])),
        st.tuples(st.just("wait"), st.integers(1, 3 * DAY_MS)),
        st.tuples(st.just("open again")),
        st.tuples(st.just("trim"), st.integers(0, 1), st.integers(1, 4)),
    ),
    max_size=30,
)


class Kafka:
    """What may and must be left of each lane, by the rules that Kafka documents."""

    def __init__(self) -> None:
        self.sent: dict[int, list[Kept]] = {0: [], 1: []}
        self.starts = {0: 0, 1: 0}
        self.first_compacted_ms: dict[tuple[int, int], int] = {}  # a tombstone's horizon begins

    def check(self, lane: int, found: Sequence[Kept], high: int, now_ms: int) -> None:
        sent = self.sent[lane]
        assert len(sent) == high
        offsets = [row[0] for row in found]
        assert offsets == sorted(set(offsets)), "order"
        assert set(found) <= set(sent), "a record keeps its offset, key and value"
        last: dict[bytes, Kept] = {row[1]: row for row in sent if row[1] is not None}
        for row in sent[self.starts[lane] :]:
            offset, key, value = row
            if key is None:
                assert row in found, "no key: nothing supersedes it"
            elif last[key] == row and value is not None:
                assert row in found, "the newest value of its key"
            elif last[key] == row:
                since_ms = self.first_compacted_ms.get((lane, offset))
                if since_ms is None or now_ms - since_ms < DAY_MS:
                    assert row in found, "a tombstone before its time"
        state = {key: value for _, key, value in found if key is not None}
        wanted = {key: row[2] for key, row in last.items() if row[0] >= self.starts[lane]}
        assert {k: v for k, v in state.items() if v is not None} == {
            k: v for k, v in wanted.items() if v is not None
        }, "a reader from the beginning ends with the state of the whole log"

    def note_compacted(self, lane: int, to: int, now_ms: int) -> None:
        for offset, _, value in self.sent[lane][:to]:
            if value is None:
                self.first_compacted_ms.setdefault((lane, offset), now_ms)


async def follow(steps: Sequence[tuple]) -> None:  # type: ignore[type-arg]
    harness = LogHarness(MemoryObjectStore)
    kafka, log = Kafka(), await harness.open()
    try:
        for kind, *how in [*steps, ("roll up",), ("compact", 1 << 20)]:
            if kind == "put":
                lane, rows, codec = how
                first = await put(log, *rows, lane=lane, codec=codec)
                kafka.sent[lane] += [(first + at, *row) for at, row in enumerate(rows)]
            elif kind == "roll up":
                await rollup.roll_up(log)
            elif kind == "compact":
                limits = CompactionLimits(1 << 30, how[0], 1.0)
                done = await clean(log, topic(min_cleanable_dirty_ratio="0.3"), limits=limits)
                if done is not None and done.is_committed:
                    for lane, to in done.reached.items():
                        kafka.note_compacted(lane, to, harness.clock.now_ms())
            elif kind == "wait":
                harness.clock.advance_ms(how[0])
            elif kind == "open again":
                await log.abandon()
                log = await harness.open()
            elif kind == "trim":
                lane, step = how
                start = min(kafka.starts[lane] + step, log.lane(lane).high)
                await retention.raise_starts(log, {lane: start})
                kafka.starts[lane] = max(kafka.starts[lane], start)
            for lane in (0, 1):
                found = await left(harness, log, lane)
                kafka.check(lane, found, log.lane(lane).high, harness.clock.now_ms())
        fresh = await harness.open()
        for lane in (0, 1):
            assert await left(harness, fresh, lane) == await left(harness, log, lane)
    finally:
        await harness.aclose()


@settings(max_examples=scaled(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_any_input_is_compacted_by_kafkas_rules(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    asyncio.run(follow(steps))


def test_the_rules_of_this_test_can_be_broken() -> None:
    kafka = Kafka()
    kafka.sent[0] = [(0, *A1), (1, *A2), (2, b"b", None)]
    kafka.check(0, [(1, *A2), (2, b"b", None)], 3, NOW_MS)
    wrong: Mapping[str, list[Kept]] = {
        "the newest is gone": [(0, *A1), (2, b"b", None)],
        "another offset": [(0, *A2), (1, *A2), (2, b"b", None)],
        "a tombstone before its time": [(1, *A2)],
        "another order": [(2, b"b", None), (1, *A2)],
    }
    for found in wrong.values():
        with pytest.raises(AssertionError):
            kafka.check(0, found, 3, NOW_MS)
