"""Requests that the proxy answers itself, with a fake of the cluster behind it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kafscale.model.errors import OffsetOutOfRange
from kafscale.proxy.apis import administration, fetch, groups, produce
from kafscale.proxy.apis.produce import UnansweredRefusal
from kafscale.proxy.coordination.offsets import GroupCommit, VirtualOffsets, VirtualPartition
from kafscale.proxy.coordination.topics import MappedTopic, Unmappable
from kafscale.proxy.partitions.partition import BatchRefused
from kafscale.records.record import Record, build_batch
from kafscale.testing.clock import ManualClock
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafscale.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafscale.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

pytestmark = pytest.mark.asyncio
ORDERS = MappedTopic("orders", b"\1" * 16, 6, 2)


class Cluster:
    """A proxy's parts, as far as these requests need them."""

    def __init__(self, *known: MappedTopic) -> None:
        self.known = {topic.name: topic for topic in known}
        self.rows: dict[bytes, bytes] = {}
        self.told: list[Any] = []
        self.partition: Any = None
        self.unmappable: set[str] = set()
        self.context: Any = SimpleNamespace(
            clock=ManualClock(),
            topics=self,
            partitions=self,
            upstream=SimpleNamespace(topics=dict.fromkeys(self.known)),
            offsets=VirtualOffsets(self),  # type: ignore[arg-type]
        )

    # topics

    async def find(self, name: str) -> MappedTopic | None:
        if name in self.unmappable:
            raise Unmappable(name)
        return self.known.get(name)

    def is_mapped(self, name: str) -> bool:
        return name in self.known

    def ratio(self, name: str) -> int:
        return 1

    def known_id(self, name: str) -> str | None:
        return self.known[name].topic_id.hex() if name in self.known else None

    # partitions

    def get(self, topic: MappedTopic, index: int) -> Any:
        return self.partition

    async def forget_topic(self, topic_id: str, more: list[bytes]) -> None:
        await self.write(dict.fromkeys(more))

    # ledger

    def watch(self, prefix: bytes, told: Any) -> None:
        self.told.append(told)

    async def write(self, rows: dict[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            for told in self.told:
                told(key, value)

    async def sync(self) -> None:
        pass

    def call(self, message: Any, answer: Any = None, version: int = 0) -> Any:
        async def ask(_message: Any, _kind: Any) -> Any:
            return answer

        return SimpleNamespace(context=self.context, message=message, ask=ask, version=version)


class Appends:
    """A partition whose next batch ends as a test says."""

    def __init__(self) -> None:
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def append(self, *_: Any) -> "asyncio.Future[int]":
        return self.done


def sent(acks: int, partition: int = 4) -> ProduceRequest:
    batch = memoryview(bytearray(build_batch([Record(0, 1, None, b"x")], base_offset=0)))
    parts = [PartitionProduceData(partition, batch)]
    return ProduceRequest(None, acks, 1000, [TopicProduceData("orders", parts)])


async def test_a_client_that_wants_no_answer_is_slowed_down_and_told_of_refusals() -> None:
    cluster = Cluster(ORDERS)
    cluster.partition = Appends()
    waiting = asyncio.ensure_future(await produce.produce(cluster.call(sent(0))))
    await asyncio.sleep(0)
    assert not waiting.done()  # its bytes stay on its account
    cluster.partition.done.set_result(0)
    assert await waiting is None
    cluster.partition = Appends()
    cluster.partition.done.set_exception(BatchRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    for partition in (cluster.partition, None):
        cluster.partition = partition
        with pytest.raises(UnansweredRefusal, match="orders-4: NOT_LEADER_OR_FOLLOWER"):
            await (await produce.produce(cluster.call(sent(0))))


class Stale:
    """A partition that another proxy served for a while: it knows two records of five."""

    def __init__(self) -> None:
        self.lane_row = SimpleNamespace(start=0, next=2)
        self.log = self

    def lane(self, number: int) -> Any:
        return self.lane_row

    async def catch_up(self) -> None:
        self.lane_row.next = 5


class Reader:
    """Reads what a partition knows."""

    def read_near(self, partition: Stale, lane: int, offset: int, most: int) -> list[bytes]:
        if offset > partition.lane_row.next:
            raise OffsetOutOfRange("too far")
        return [b"batch"] if offset < partition.lane_row.next else []


@pytest.mark.parametrize(
    ("offset", "code", "found"),
    [
        (1, ErrorCode.NONE, [b"batch"]),
        (4, ErrorCode.NONE, [b"batch"]),
        (5, ErrorCode.NONE, []),
        (6, ErrorCode.OFFSET_OUT_OF_RANGE, []),
    ],
)
async def test_an_offset_is_out_of_range_only_if_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, offset: int, code: int, found: list[bytes]
) -> None:
    cluster = Cluster(ORDERS)
    cluster.context.reader = Reader()
    partition = Stale()

    async def opened(*_: Any) -> tuple[Any, int]:
        return partition, 0

    async def fits(*_: Any) -> int:
        return 0

    monkeypatch.setattr(fetch, "open_partition", opened)
    monkeypatch.setattr(fetch, "epoch_error", fits)
    row = FetchPartition(4, -1, offset, partition_max_bytes=1000)
    request = FetchRequest(max_bytes=1000, topics=[FetchTopic("orders", partitions=[row])])
    answer = await (await fetch.fetch(cluster.call(request)))  # type: ignore[misc]
    told = answer.responses[0].partitions[0]
    assert (told.error_code, told.records) == (code, found)


class FarReader:
    """Gives an old batch of forty bytes, once as many partitions are read at a time."""

    def __init__(self, together: int) -> None:
        self._all = asyncio.Barrier(together)

    def read_near(self, *_: Any) -> None:
        return None

    async def read_far(self, *_: Any) -> list[bytes]:
        await self._all.wait()
        return [b"h" * 10, b"r" * 30]


@pytest.mark.parametrize(
    ("most_bytes", "filled"), [(1000, 3), (100, 3), (80, 2), (70, 2), (40, 1), (5, 1), (0, 1)]
)
async def test_old_records_of_several_physical_partitions_are_read_at_a_time(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int, filled: int
) -> None:
    """The answer stays below its limit, save one batch: it might never fit."""
    together = min(3, -(-most_bytes // 40)) or 1  # those that get room
    cluster = Cluster(ORDERS)
    cluster.context.reader = FarReader(together if most_bytes else 3)
    partitions = [Stale() for _ in range(3)]

    async def opened(_call: Any, _mapped: Any, number: int) -> tuple[Any, int]:
        return partitions[number], 0

    async def fits(*_: Any) -> int:
        return 0

    monkeypatch.setattr(fetch, "open_partition", opened)
    monkeypatch.setattr(fetch, "epoch_error", fits)
    rows = [FetchPartition(at, -1, 0, partition_max_bytes=40) for at in range(3)]
    request = FetchRequest(max_bytes=most_bytes, topics=[FetchTopic("orders", partitions=rows)])
    async with asyncio.timeout(30):
        answer = await (await fetch.fetch(cluster.call(request)))  # type: ignore[misc]
    sizes = [sum(map(len, row.records)) for row in answer.responses[0].partitions]
    assert sorted(sizes, reverse=True) == [40] * filled + [0] * (3 - filled)


async def test_a_topic_that_is_created_anew_begins_without_offsets() -> None:
    cluster = Cluster(ORDERS)
    offsets: VirtualOffsets = cluster.context.offsets
    place = VirtualPartition("orders", 4)
    await offsets.commit("g", {place: GroupCommit(7, -1, "", ORDERS.topic_id.hex())})
    call = cluster.call(None)

    async def committed(wanted: dict[str, list[int]] | None) -> dict[str, list[Any]]:
        mapped = dict(cluster.known) if wanted else {}
        return await groups._committed(call, "g", wanted, mapped)

    assert await committed({"orders": [4]}) == {"orders": [(4, 7, -1, "", 0)]}
    assert await committed(None) == {"orders": [(4, 7, -1, "", 0)]}
    cluster.known["orders"] = ORDERS._replace(topic_id=b"\2" * 16)
    assert await committed({"orders": [4]}) == {"orders": [(4, -1, -1, "", 0)]}
    assert await committed(None) == {}


async def test_offsets_of_a_topic_that_cannot_be_mapped_are_not_committed() -> None:
    """Else the cluster would take virtual partitions for its own."""
    cluster = Cluster(ORDERS)
    cluster.unmappable.add("orders")
    topics = [
        OffsetCommitRequestTopic(name, [OffsetCommitRequestPartition(1, 7)])
        for name in ("orders", "plain")
    ]
    rows = [OffsetCommitResponseTopic("plain", [OffsetCommitResponsePartition(1, 0)])]
    request = OffsetCommitRequest("g", topics=topics)
    call = cluster.call(request, OffsetCommitResponse(topics=rows))
    answer: Any = await groups.offset_commit(call)
    assert [topic.name for topic in request.topics] == ["plain"]
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "plain": 0}


async def test_what_is_known_of_a_topic_goes_with_it() -> None:
    cluster = Cluster(ORDERS)
    offsets: VirtualOffsets = cluster.context.offsets
    place = VirtualPartition("orders", 4)
    await offsets.commit("g", {place: GroupCommit(7, -1, "", ORDERS.topic_id.hex())})
    for code, left in ((ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1), (0, 0)):
        answer = DeleteTopicsResponse(responses=[DeletableTopicResult("orders", error_code=code)])
        call = cluster.call(DeleteTopicsRequest([], ["orders"], 1000), answer)
        assert await administration.delete_topics(call) is answer
        assert len(await offsets.of_group("g")) == left
        assert ("orders" in cluster.context.upstream.topics) == bool(left)


async def test_creating_a_topic_that_exists_disturbs_nothing() -> None:
    cluster = Cluster(ORDERS)
    row = CreatableTopicResult("orders", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
    answer = CreateTopicsResponse(topics=[row])
    call = cluster.call(CreateTopicsRequest([CreatableTopic("orders", 6, -1)], 1000), answer)
    await administration.create_topics(call)
    assert "orders" in cluster.context.upstream.topics
    answer.topics = [msgspec.structs.replace(row, error_code=0)]
    await administration.create_topics(call)
    assert "orders" not in cluster.context.upstream.topics
