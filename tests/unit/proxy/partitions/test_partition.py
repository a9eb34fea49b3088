"""Two proxies write to one physical partition while answers are lost: nothing is lost or doubled.

The upstream is a fake whose only purpose is to fail: it loses requests, loses answers, and lets
requests arrive that were given up long ago.
"""

import asyncio
import random
import threading
from typing import Any

import pytest

from kafscale.proxy.partitions import partition as module
from kafscale.proxy.partitions.partition import BatchRefused, PhysicalPartition, State
from kafscale.proxy.partitions.reading import LaneReader, PhysicalBlocks
from kafscale.proxy.partitions.tail import NewestBatches
from kafscale.proxy.state.lanes import PhysicalLog
from kafscale.proxy.state.tags import with_definition
from kafscale.proxy.upstream.appending import LOST, AppendOutcome
from kafscale.proxy.upstream.cluster import Leader
from kafscale.proxy.upstream.fetching import EARLIEST, Block
from kafscale.proxy.upstream.link import UpstreamLost
from kafscale.records.batch import read_header, stamp, walk
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch, open_batch
from kafscale.tasks import Tasks
from kafscale.testing.clock import ManualClock, SeededDice
from kafscale.wire.kafka.errors import ErrorCode

pytestmark = pytest.mark.asyncio


class FaultyUpstream:
    """One physical partition that fails on purpose."""

    def __init__(self, seed: int, faults: float) -> None:
        self.dice = random.Random(seed)
        self.faults = faults
        self.batches: list[bytes] = []
        self.end = 0
        self.late: list[bytes] = []

    def store(self, batch: bytes) -> int:
        made = bytearray(batch)
        stamp(made, self.end, 0)
        self.batches.append(bytes(made))
        base, self.end = self.end, read_header(made).next_offset
        return base

    def produce(self, batch: bytes) -> AppendOutcome:
        while self.late and self.dice.random() < 0.3:
            self.store(self.late.pop(0))
        chance = self.dice.random()
        if chance > self.faults:
            return AppendOutcome(0, self.store(batch))
        match self.dice.randrange(5):
            case 0:
                return AppendOutcome(LOST)
            case 1:
                self.store(batch)
                return AppendOutcome(LOST)
            case 2:
                self.late.append(batch)
                return AppendOutcome(LOST)
            case 3:
                return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case _:
                self.store(batch)
                return AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def read(self, place: int) -> Block:
        if self.dice.random() < self.faults:
            raise UpstreamLost("on purpose")
        data = b"".join(one for one in self.batches if read_header(one).next_offset > place)
        return Block(memoryview(data), place, self.end, self.end, 0)

    # what a partition asks of the cluster

    async def refresh(self, *names: str) -> None:
        pass

    async def leader(self, topic: str, index: int) -> Leader:
        return Leader(1, 0)


class FakeAppender:
    """Sends one batch after the other, each in a later turn of the loop."""

    def __init__(self, upstream: FaultyUpstream) -> None:
        self._upstream = upstream

    def submit(self, node: int, source: Any) -> None:
        asyncio.get_running_loop().call_soon(self._send, source)

    def _send(self, source: Any) -> None:
        taken = []
        while (batch := source.take()) is not None:
            taken.append(bytes(batch))
        for batch in taken:
            source.answered(self._upstream.produce(batch))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0)

    async def fetch(upstream: FaultyUpstream, topic: str, index: int, place: int) -> Block:
        await asyncio.sleep(0)
        return upstream.read(place)

    async def offset(upstream: FaultyUpstream, topic: str, index: int, which: int) -> int:
        return 0 if which == EARLIEST else upstream.end

    monkeypatch.setattr(module, "fetch_block", fetch)
    monkeypatch.setattr(module, "list_offset", offset)
    monkeypatch.setattr("kafscale.proxy.partitions.reading.fetch_block", fetch)


def a_proxy(upstream: FaultyUpstream, tasks: Tasks, seed: int) -> PhysicalPartition:
    return PhysicalPartition(
        "orders",
        0,
        upstream,  # type: ignore[arg-type]
        FakeAppender(upstream),  # type: ignore[arg-type]
        NewestBatches(1 << 20),
        ManualClock(),
        SeededDice(seed),
        tasks,
    )


def a_batch(first: int, count: int, pid: int, lane: int) -> memoryview:
    records = [Record(at, 1000, None, f"{pid}/{lane}/{first + at}".encode()) for at in range(count)]
    return memoryview(
        bytearray(
            build_batch(
                records,
                base_offset=0,
                codec=Codec.LZ4,
                producer_id=pid,
                producer_epoch=0 if pid >= 0 else -1,
                base_sequence=first if pid >= 0 else -1,
            )
        )
    )


class Producer:
    """A client: it sends batches of several lanes in order, each to any of the proxies."""

    def __init__(self, pid: int, dice: random.Random) -> None:
        self.pid = pid
        self.dice = dice
        self.acked: dict[int, list[tuple[int, int]]] = {}
        self.lane_next: dict[int, int] = {}

    async def send(self, proxies: list[PhysicalPartition]) -> None:
        lane, count = self.dice.randrange(3), self.dice.randrange(1, 4)
        first = self.lane_next.get(lane, 0)
        batch = a_batch(first, count, self.pid, lane)
        proxy = self.dice.choice(proxies)
        offset = await proxy.append(lane, batch, read_header(batch), 1000)
        self.lane_next[lane] = first + count
        self.acked.setdefault(lane, []).append((offset, first))


async def read_all(
    upstream: FaultyUpstream, proxy: PhysicalPartition, lane: int
) -> list[tuple[int, str]]:
    reader = LaneReader(PhysicalBlocks(upstream, 1 << 20, Tasks()), NewestBatches(0))  # type: ignore[arg-type]
    known = proxy.log.lane(lane)
    found: list[tuple[int, str]] = []
    offset = known.start
    while offset < known.next:
        data = memoryview(b"".join(await reader.read_far(proxy, lane, offset, 200)))
        for at, header in walk(data):
            for record in open_batch(data[at : at + header.size], 1 << 20):
                assert record.headers == ()
                found.append((record.offset, (record.value or b"").decode()))
        offset = found[-1][0] + 1
    return found


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("proxy_count", [1, 2])
@pytest.mark.parametrize("quick_bytes", [module.QUICK_UNPACKED, 0])
async def test_what_was_acknowledged_is_there_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch, seed: int, proxy_count: int, quick_bytes: int
) -> None:
    monkeypatch.setattr(module, "QUICK_UNPACKED", quick_bytes)  # 0: packed by other threads
    upstream = FaultyUpstream(seed, 0.25)
    tasks = Tasks()
    proxies = [a_proxy(upstream, tasks, seed * 10 + at) for at in range(proxy_count)]
    for proxy in proxies:
        tasks.spawn(proxy.open(PhysicalLog(), 3), "open")
    producers = [Producer(pid, random.Random(seed + pid)) for pid in (11, 12, 13)]

    async def work(producer: Producer) -> None:
        for _ in range(40):
            await producer.send(proxies)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(work, producers))
    upstream.faults = 0
    fresh = a_proxy(upstream, tasks, 99)
    await fresh.open(PhysicalLog(), 3)
    for lane in range(3):
        found = await read_all(upstream, fresh, lane)
        assert [offset for offset, _ in found] == list(range(len(found)))
        by_offset = dict(found)
        for producer in producers:
            own = [value for _, value in found if value.startswith(f"{producer.pid}/")]
            sent = producer.lane_next.get(lane, 0)
            assert own == [f"{producer.pid}/{lane}/{at}" for at in range(sent)]
            for offset, first in producer.acked.get(lane, ()):
                assert by_offset[offset] == f"{producer.pid}/{lane}/{first}"
    await tasks.aclose()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(6))
async def test_batches_without_a_producer_id_are_stored_once_too(seed: int) -> None:
    """The proxy sends a batch again by itself; the client has sent it once."""
    upstream = FaultyUpstream(seed, 0.3)
    tasks = Tasks()
    proxy = a_proxy(upstream, tasks, seed)
    tasks.spawn(proxy.open(PhysicalLog(), 3), "open")
    sent = []
    for at in range(60):
        batch = a_batch(at * 10, 2, -1, at % 3)
        sent.append(proxy.append(at % 3, batch, read_header(batch), 1000))
    async with asyncio.timeout(60):
        await asyncio.gather(*sent)
    stored = [
        (record.value or b"").decode()
        for lane in range(3)
        for record in await _open_lane(upstream, proxy, lane)
    ]
    assert len(stored) == len(set(stored)) == 120
    await tasks.aclose()


async def _open_lane(upstream: FaultyUpstream, proxy: PhysicalPartition, lane: int) -> list[Record]:
    upstream.faults = 0
    return [
        Record(offset, 0, None, value.encode())
        for offset, value in await read_all(upstream, proxy, lane)
    ]


@pytest.mark.usefixtures("quick")
async def test_a_batch_that_the_upstream_refuses_hurts_no_other() -> None:
    upstream = FaultyUpstream(1, 0)
    refused: list[bytes] = []

    def produce(batch: bytes) -> AppendOutcome:
        if not refused:
            refused.append(batch)
            return AppendOutcome(ErrorCode.MESSAGE_TOO_LARGE)
        return AppendOutcome(0, upstream.store(batch))

    upstream.produce = produce  # type: ignore[method-assign]
    tasks = Tasks()
    proxy = a_proxy(upstream, tasks, 1)
    await proxy.open(PhysicalLog(), 1)
    batches = [a_batch(at, 1, -1, 0) for at in range(3)]
    sent = [proxy.append(0, one, read_header(one), 1000) for one in batches]
    outcomes = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(outcomes[0], BatchRefused)
    assert outcomes[0].code == ErrorCode.MESSAGE_TOO_LARGE
    assert outcomes[1:] == [0, 1]
    assert [len(list(walk(one))) for one in upstream.batches]
    await tasks.aclose()


@pytest.mark.usefixtures("quick")
async def test_a_closed_partition_sends_clients_elsewhere() -> None:
    upstream = FaultyUpstream(1, 0)
    tasks = Tasks()
    proxy = a_proxy(upstream, tasks, 1)
    await proxy.open(PhysicalLog(), 1)
    proxy.close()
    batch = a_batch(0, 1, -1, 0)
    with pytest.raises(BatchRefused) as refusal:
        await proxy.append(0, batch, read_header(batch), 1000)
    assert refusal.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert proxy.state is State.CLOSED
    await tasks.aclose()


@pytest.mark.usefixtures("quick")
async def test_a_proxy_reads_what_another_one_wrote_meanwhile() -> None:
    upstream = FaultyUpstream(1, 0)
    tasks = Tasks()
    one, two = a_proxy(upstream, tasks, 1), a_proxy(upstream, tasks, 2)
    for proxy in (one, two):
        await proxy.open(PhysicalLog(), 1)
    batch = a_batch(0, 3, -1, 0)
    await two.append(0, batch, read_header(batch), 1000)
    assert one.log.lane(0).next == 0
    await one.catch_up()
    assert one.log.lane(0).next == 3
    await one.catch_up()
    one.close()
    with pytest.raises(UpstreamLost):
        await one.reach(upstream.end + 1)
    await tasks.aclose()


@pytest.mark.usefixtures("quick")
async def test_a_large_first_batch_is_packed_by_a_thread_and_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[bool] = []
    loop = threading.get_ident()

    def packed(*arguments: Any) -> bytearray:
        made = with_definition(*arguments)
        threads.append(threading.get_ident() != loop)
        return made

    monkeypatch.setattr(module, "with_definition", packed)
    upstream, tasks = FaultyUpstream(1, 0), Tasks()
    proxy = a_proxy(upstream, tasks, 1)
    await proxy.open(PhysicalLog(), 3)
    large = a_batch(0, 10_000, 7, 0)
    batches = [large, a_batch(10_000, 2, 7, 0), a_batch(0, 3, 7, 1), a_batch(10_002, 2, 7, 0)]
    lanes = [0, 0, 1, 0]
    async with asyncio.timeout(60):
        found = await asyncio.gather(
            *(
                proxy.append(lane, batch, read_header(batch), 1000)
                for lane, batch in zip(lanes, batches, strict=True)
            )
        )
    assert found == [0, 10_000, 0, 10_002]
    assert threads == [True]
    values = [value for _, value in await read_all(upstream, proxy, 0)]
    assert values == [f"7/0/{at}" for at in range(10_004)]
    await tasks.aclose()


@pytest.mark.usefixtures("quick")
async def test_a_large_first_batch_that_is_not_sound_is_refused_alone() -> None:
    upstream, tasks = FaultyUpstream(1, 0), Tasks()
    proxy = a_proxy(upstream, tasks, 1)
    await proxy.open(PhysicalLog(), 3)
    records = [Record(at, 1000, None, b"v" * 10) for at in range(10_000)]
    bad = bytearray(build_batch(records, base_offset=0, producer_id=7, producer_epoch=0))
    bad[61] = 0xFF  # the first record's length is nonsense
    bad[62:66] = b"\xff" * 4
    header = read_header(bad)._replace(base_sequence=0)
    other = a_batch(0, 2, 8, 1)
    refused = proxy.append(0, memoryview(bad), header, 1000)
    async with asyncio.timeout(60):
        assert await proxy.append(1, other, read_header(other), 1000) == 0
        with pytest.raises(BatchRefused) as problem:
            await refused
    assert problem.value.code == ErrorCode.INVALID_RECORD
    await tasks.aclose()
