"""KIP-227: a consumer names its partitions once, then only what changes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kafscale.engine.partitions.reads import PartitionRead
from kafscale.gateways.kafka.calls import fetch_sessions
from kafscale.gateways.kafka.calls.fetch_sessions import (
    KEPT_S,
    LONGEST_IDLE_S,
    FetchSession,
    FetchSessions,
    RequestedPartition,
)
from kafscale.testing.clock import SeededDice
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.unit.gateways.kafka.caller import Caller, fetch_request, make_batch, values_of

Wanted = Sequence[tuple[str | bytes, int, int]]


class Consumer:
    """Keeps a session the way clients do."""

    def __init__(self, caller: Caller, version: int = 12) -> None:
        self.caller = caller
        self.version = version
        self.session_id, self.epoch = 0, 0

    async def fetch(self, wanted: Wanted = (), **wishes: Any) -> Any:
        request = fetch_request(
            wanted, session_id=self.session_id, session_epoch=self.epoch, **wishes
        )
        answer = await self.caller.ask(request, self.version)
        if answer.error_code == 0:
            self.session_id = answer.session_id
            self.epoch += 1
        return answer


def told(answer: Any) -> dict[tuple[str, int], list[bytes | None]]:
    """Which partitions an answer mentions, and their values."""
    return {
        (topic.topic, row.partition_index): values_of(row)
        for topic in answer.responses
        for row in topic.partitions
    }


async def test_a_new_session_answers_all_and_later_only_what_changed(caller: Caller) -> None:
    await caller.create("t", 3)
    consumer = Consumer(caller)
    first = await consumer.fetch([("t", number, 0) for number in range(3)])
    assert first.session_id > 0
    assert told(first) == {("t", 0): [], ("t", 1): [], ("t", 2): []}
    assert told(await consumer.fetch()) == {}
    await caller.produce("t", make_batch(b"a"), partition=1)
    assert told(await consumer.fetch()) == {("t", 1): [b"a"]}
    # The client has not moved its offset, so the data comes again.
    assert told(await consumer.fetch()) == {("t", 1): [b"a"]}
    assert told(await consumer.fetch([("t", 1, 1)])) == {}


async def test_partitions_are_added_changed_and_forgotten(caller: Caller) -> None:
    await caller.create("t", 2)
    await caller.create("u")
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        await caller.produce(topic, make_batch(b"1"), partition=partition)
        await caller.produce(topic, make_batch(b"2"), partition=partition)
    consumer = Consumer(caller)
    assert told(await consumer.fetch([("t", 0, 0)])) == {("t", 0): [b"1", b"2"]}
    assert told(await consumer.fetch([("t", 0, 2), ("u", 0, 1)])) == {("u", 0): [b"2"]}
    answer = await consumer.fetch([("t", 1, 1)], forgotten=[("u", 0)])
    assert told(answer) == {("t", 1): [b"2"]}
    answer = await consumer.fetch([], forgotten=[("t", 0), ("t", 1), ("missing", 9)])
    assert (answer.error_code, told(answer)) == (0, {})


async def test_an_empty_session_answers_at_once(caller: Caller) -> None:
    await caller.create("t")
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 0)])
    assert told(await consumer.fetch([], forgotten=[("t", 0)], max_wait_ms=30_000)) == {}


async def test_an_unknown_session_is_70(caller: Caller) -> None:
    answer = await caller.ask(fetch_request([], session_id=4711, session_epoch=1), 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    answer = await caller.ask(fetch_request([], session_id=0, session_epoch=1), 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_wrong_epoch_is_71_and_does_no_harm(caller: Caller) -> None:
    await caller.create("t")
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 0)])
    for epoch in (2, 5, 2**31 - 1):
        answer = await caller.ask(
            fetch_request([], session_id=consumer.session_id, session_epoch=epoch), 12
        )
        assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (await consumer.fetch()).error_code == 0


async def test_epoch_minus_one_closes_a_session_and_reads_without_one(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"a"))
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 0)])
    closing = fetch_request([("t", 0, 0)], session_id=consumer.session_id, session_epoch=-1)
    answer = await caller.ask(closing, 12)
    assert (answer.session_id, told(answer)) == (0, {("t", 0): [b"a"]})
    assert (await consumer.fetch()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_epoch_0_with_an_old_id_replaces_the_session(caller: Caller) -> None:
    await caller.create("t")
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 0)])
    old = consumer.session_id
    consumer.epoch = 0
    answer = await consumer.fetch([("t", 0, 0)])
    assert answer.session_id not in (0, old)
    gone = await caller.ask(fetch_request([], session_id=old, session_epoch=1), 12)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_an_error_is_told_until_it_is_over(caller: Caller) -> None:
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 0)])
    again = await consumer.fetch()
    assert again.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await caller.create("t")
    better = await consumer.fetch()
    assert better.responses[0].partitions[0].error_code == 0
    assert told(await consumer.fetch()) == {}


async def test_partitions_that_got_data_wait_their_turn(caller: Caller) -> None:
    await caller.create("t", 3)
    for partition in range(3):
        await caller.produce("t", make_batch(b"x"), partition=partition)
    consumer = Consumer(caller)
    served = []
    first = await consumer.fetch([("t", n, 0) for n in range(3)], max_bytes=1)
    served.append([place for place, values in told(first).items() if values])
    for _ in range(3):
        answer = await consumer.fetch(max_bytes=1)
        served.append([place for place, values in told(answer).items() if values])
    assert served == [[("t", 0)], [("t", 1)], [("t", 2)], [("t", 0)]]


async def test_sessions_by_id_are_for_version_13(caller: Caller) -> None:
    made = await caller.create("t")
    consumer = Consumer(caller, version=13)
    first = await consumer.fetch([(made.topic_id, 0, 0)])
    assert first.responses[0].topic_id == made.topic_id
    await caller.produce("t", make_batch(b"a"))
    second = await consumer.fetch()
    assert values_of(second.responses[0].partitions[0]) == [b"a"]
    consumer.version = 12
    mixed = await consumer.fetch()
    assert mixed.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    consumer.version = 13
    assert told(await consumer.fetch([], forgotten=[(made.topic_id, 0)])) == {}


async def test_a_topic_created_again_is_found_by_name_and_lost_by_id(caller: Caller) -> None:
    made = await caller.create("t")
    by_name, by_id = Consumer(caller), Consumer(caller, version=13)
    await by_name.fetch([("t", 0, 0)])
    await by_id.fetch([(made.topic_id, 0, 0)])
    await caller.delete("t")
    await caller.create("t")
    await caller.produce("t", make_batch(b"new"))
    assert told(await by_name.fetch()) == {("t", 0): [b"new"]}
    lost = await by_id.fetch()
    assert lost.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


# -- parked partitions -----------------------------------------------------------------------


def watched(broker: InProcessBroker) -> int:
    """How many watchers all lanes have."""
    return sum(
        len(lane.watchers)
        for _, log in broker.engine._parts.logs.each()
        for lane in log.lanes.values()
    )


@pytest.fixture
def looked_at(broker: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The partitions that each fetch looks at in memory."""
    looks: list[list[int]] = []
    honest = broker.engine.partitions.fetch_now

    def fetch_now(wanted, *limits):  # type: ignore[no-untyped-def]
        looks.append([one.partition for one in wanted])
        return honest(wanted, *limits)

    monkeypatch.setattr(broker.engine.partitions, "fetch_now", fetch_now)
    monkeypatch.setattr(fetch_sessions, "ACTIVATE_ALL_EVERY_S", 1000.0)
    return looks


async def test_partitions_without_news_are_not_looked_at(
    caller: Caller, looked_at: list[list[int]]
) -> None:
    await caller.create("t", 3)
    consumer = Consumer(caller)
    await consumer.fetch([("t", number, 0) for number in range(3)])
    await consumer.fetch()
    await caller.produce("t", make_batch(b"a"), partition=1)
    assert told(await consumer.fetch()) == {("t", 1): [b"a"]}
    assert told(await consumer.fetch([("t", 1, 1)])) == {}
    assert told(await consumer.fetch()) == {}
    await caller.produce("t", make_batch(b"b"), partition=1)
    await caller.produce("t", make_batch(b"c"), partition=2)
    assert told(await consumer.fetch()) == {("t", 1): [b"b"], ("t", 2): [b"c"]}
    assert looked_at == [[0, 1, 2], [], [1], [1], [], [1, 2]]


async def test_a_client_that_asks_for_another_offset_wakes_its_partition(
    caller: Caller, looked_at: list[list[int]]
) -> None:
    await caller.create("t", 2)
    await caller.produce("t", make_batch(b"a"))
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 1), ("t", 1, 0)])
    assert told(await consumer.fetch([("t", 0, 0)])) == {("t", 0): [b"a"]}
    answer = await consumer.fetch([("t", 1, 7)])
    assert answer.responses[0].partitions[-1].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert looked_at == [[0, 1], [0], [0, 1]]


async def test_a_fetch_waits_for_partitions_at_rest(
    broker: InProcessBroker, caller: Caller, looked_at: list[list[int]]
) -> None:
    await caller.create("t", 3)
    async with Caller(broker.port) as other:
        consumer = Consumer(other)
        await consumer.fetch([("t", number, 0) for number in range(3)])
        waiting = asyncio.ensure_future(consumer.fetch(max_wait_ms=30_000))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await caller.produce("t", make_batch(b"a"), partition=2)
        assert told(await waiting) == {("t", 2): [b"a"]}


async def test_a_wait_that_was_in_vain_says_nothing(caller: Caller) -> None:
    await caller.create("t", 3)
    consumer = Consumer(caller)
    await consumer.fetch([("t", number, 0) for number in range(3)])
    assert told(await consumer.fetch(max_wait_ms=30)) == {}


async def test_a_partition_that_is_new_in_a_session_is_told_of_even_if_it_has_nothing(
    caller: Caller,
) -> None:
    await caller.create("t", 2)
    await caller.produce("t", make_batch(b"a"), partition=1)
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 0)])
    answer = await consumer.fetch([("t", 1, 1)], max_wait_ms=30)
    (row,) = answer.responses[0].partitions
    assert (row.partition_index, row.high_watermark) == (1, 1)
    assert told(await consumer.fetch(max_wait_ms=30)) == {}


async def test_more_than_one_partition_may_be_needed_for_enough_bytes(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t", 2)
    batch = make_batch(b"a")
    async with Caller(broker.port) as other:
        consumer = Consumer(other)
        await consumer.fetch([("t", 0, 0), ("t", 1, 0)])
        wishes = {"max_wait_ms": 30_000, "min_bytes": 2 * len(batch)}
        waiting = asyncio.ensure_future(consumer.fetch(**wishes))
        await asyncio.sleep(0.05)
        await caller.produce("t", batch, partition=0)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await caller.produce("t", batch, partition=1)
        assert told(await waiting) == {("t", 0): [b"a"], ("t", 1): [b"a"]}


async def test_the_end_of_a_topic_is_told_at_once(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t", 2)
    async with Caller(broker.port) as other:
        consumer = Consumer(other)
        await consumer.fetch([("t", 0, 0), ("t", 1, 0)])
        waiting = asyncio.ensure_future(consumer.fetch(max_wait_ms=30_000))
        await asyncio.sleep(0.05)
        await caller.delete("t")
        rows = (await waiting).responses[0].partitions
        assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in {row.error_code for row in rows}


async def test_what_wakes_no_fetch_is_told_before_long(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "ACTIVATE_ALL_EVERY_S", 0.0)
    await caller.create("t", 2)
    await caller.produce("t", make_batch(b"a"))
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 1), ("t", 1, 0)])
    row = DeleteRecordsPartition(0, -1)
    await caller.ask(DeleteRecordsRequest([DeleteRecordsTopic("t", [row])], 10_000), 2)
    (told_of,) = (await consumer.fetch()).responses[0].partitions
    assert (told_of.partition_index, told_of.log_start_offset) == (0, 1)


async def test_a_session_that_is_over_and_a_partition_it_forgot_watch_nothing(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t", 3)
    consumer = Consumer(caller)
    await consumer.fetch([("t", number, 0) for number in range(3)])
    assert watched(broker) == 3
    await consumer.fetch(forgotten=[("t", 1)])
    assert watched(broker) == 2
    await caller.ask(fetch_request([], session_id=consumer.session_id, session_epoch=-1), 12)
    assert watched(broker) == 0


async def test_a_lane_that_had_news_is_watched_again_only_when_it_has_been_read(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t", 2)
    consumer = Consumer(caller)
    await consumer.fetch([("t", 0, 0), ("t", 1, 0)])
    await caller.produce("t", make_batch(b"a"))
    assert watched(broker) == 1
    await consumer.fetch()
    assert watched(broker) == 1
    await consumer.fetch([("t", 0, 1)])
    assert watched(broker) == 2


async def test_all_partitions_are_looked_at_now_and_then(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t", 3)
    for partition in range(3):
        await caller.produce("t", make_batch(b"a"), partition=partition)
    topic, partitions = broker.engine.topics.get("t"), broker.engine.partitions
    session = FetchSession(1, by_id=False)
    session.update([RequestedPartition("t", n, 1, 100, -1) for n in range(3)], [])
    for cached in session.list_active(now_s=10.0):
        cached.high, cached.start = 1, 0  # as the client was told
        session.park(cached, partitions, PartitionRead(topic, cached.requested.partition, 1, 100))
    assert session.all_parked
    assert session.list_active(now_s=10.0 + fetch_sessions.ACTIVATE_ALL_EVERY_S / 2) == []
    assert len(session.list_active(now_s=10.0 + fetch_sessions.ACTIVATE_ALL_EVERY_S)) == 3


async def test_a_session_that_makes_room_watches_nothing(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"a"))
    position = PartitionRead(broker.engine.topics.get("t"), 0, 1, 100)
    sessions = FetchSessions(SeededDice(), slots=1)
    session = created(sessions, range(1), now_s=0.0, offset=1)
    (cached,) = session.list_active(now_s=0.0)
    session.park(cached, broker.engine.partitions, position)
    assert watched(broker) == 1
    created(sessions, now_s=KEPT_S)
    assert watched(broker) == 0
    session.park(cached, broker.engine.partitions, position)
    assert watched(broker) == 0, "a fetch that was under way does not subscribe again"


# -- the table of sessions -------------------------------------------------------------------


async def test_a_session_that_grows_beyond_measure_ends(
    caller: Caller, broker: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions need not exist to be named."""
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 10)
    await caller.create("t")
    consumer = Consumer(caller)
    for begin in (0, 5):
        wanted = [("missing", number, 0) for number in range(begin, begin + 5)]
        assert (await consumer.fetch(wanted)).error_code == 0
    answer = await consumer.fetch([("t", 0, 0)])
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    consumer.session_id = consumer.epoch = 0
    answer = await consumer.fetch([("t", number, 0) for number in range(11)])
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(told(answer)) == 11


def created(
    sessions: FetchSessions, partitions: range = range(0), *, now_s: float, offset: int = 0
) -> FetchSession:
    session = sessions.create(False, wanted(partitions, offset), now_s)
    assert session is not None
    return session


def wanted(partitions: range, offset: int = 0) -> list[RequestedPartition]:
    return [RequestedPartition("t", number, offset, 100, -1) for number in partitions]


def test_sessions_with_very_many_partitions_in_all_make_room_when_they_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_IN_ALL", 4)
    sessions = FetchSessions(SeededDice())
    first, second = (created(sessions, range(2), now_s=now_s) for now_s in (0.0, 1.0))
    assert sessions.create(False, wanted(range(1)), KEPT_S - 1) is None
    third = created(sessions, range(1), now_s=KEPT_S)
    assert sessions.find(first.session_id) is None
    assert sessions.find(second.session_id) is second
    assert sessions.find(third.session_id) is third


def test_a_session_grows_as_far_as_there_is_room_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_IN_ALL", 4)
    sessions = FetchSessions(SeededDice())
    first, second = (created(sessions, range(2), now_s=0.0) for _ in range(2))
    assert sessions.update(first, wanted(range(2), 5), [], now_s=1.0), "nothing new"
    assert sessions.update(second, wanted(range(0)), [("t", 0)], now_s=1.0)
    assert sessions.update(first, wanted(range(3)), [], now_s=1.0)
    assert not sessions.update(second, wanted(range(1, 3)), [], now_s=1.0)
    assert sessions.find(second.session_id) is None, "the client begins again, or goes without"
    assert created(sessions, range(1), now_s=1.0), "what the session held is free"


def test_a_session_that_grows_makes_those_end_that_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_IN_ALL", 4)
    sessions = FetchSessions(SeededDice())
    growing, unused = (created(sessions, range(2), now_s=0.0) for _ in range(2))
    sessions.find(growing.session_id)
    assert sessions.update(growing, wanted(range(4)), [], now_s=KEPT_S)
    assert sessions.find(unused.session_id) is None
    assert len(growing.partitions) == 4


def test_the_session_idle_longest_makes_room_and_one_used_lately_does_not() -> None:
    sessions = FetchSessions(SeededDice(), slots=3)
    first, second, third = (created(sessions, now_s=0.0) for _ in range(3))
    assert sessions.find(first.session_id) is first
    first.list_active(now_s=1.0)
    assert sessions.create(False, [], KEPT_S - 1) is None
    created(sessions, now_s=KEPT_S)
    assert len(sessions) == 3
    assert sessions.find(second.session_id) is None
    assert sessions.find(first.session_id) is first
    assert sessions.find(third.session_id) is third


def test_sessions_that_were_idle_for_long_end() -> None:
    sessions = FetchSessions(SeededDice())
    left, used, new = (created(sessions, now_s=0.0) for _ in range(3))
    sessions.find(used.session_id)
    used.list_active(now_s=LONGEST_IDLE_S / 2)
    sessions.find(new.session_id)
    new.list_active(now_s=LONGEST_IDLE_S / 2)
    sessions.close_idle(now_s=LONGEST_IDLE_S - 1)
    assert len(sessions) == 3
    sessions.close_idle(now_s=LONGEST_IDLE_S)
    assert sessions.find(left.session_id) is None
    assert sessions.find(used.session_id) is used
    assert sessions.find(new.session_id) is new


def test_session_ids_are_positive_and_never_taken() -> None:
    class Dull:
        """Throws the same numbers again and again."""

        def __init__(self) -> None:
            self.throws = [0, 0x80000000, 5, 5, 0x80000005, 6]

        def token(self, size: int) -> bytes:
            return self.throws.pop(0).to_bytes(size, "big")

    sessions = FetchSessions(Dull())
    assert [created(sessions, now_s=0.0).session_id for _ in range(2)] == [5, 6]


@pytest.mark.parametrize(("epoch", "following"), [(1, 2), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1)])
def test_epochs_skip_the_number_that_means_new(epoch: int, following: int) -> None:
    session = FetchSession(1, by_id=False, epoch=epoch)
    session.advance()
    assert session.epoch == following


def test_a_change_keeps_a_partitions_place_among_the_active() -> None:
    session = FetchSession(1, by_id=False)
    session.update([RequestedPartition("t", n, 0, 100, -1) for n in range(3)], [])
    session.update([RequestedPartition("t", 0, 7, 100, -1)], [("t", 1)])
    assert list(session.partitions) == [("t", 0), ("t", 2)]
    assert session.partitions[("t", 0)].requested.offset == 7
