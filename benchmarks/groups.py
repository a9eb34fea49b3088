"""Consumer groups in numbers: many members joining, staying alive, committing.

    python -m benchmarks.groups [--quick]

In this room: members that speak the protocol over a connection each and do nothing else, so that
what is measured is the broker. Next door: reading and writing records (workloads.py).
"""

import argparse
import asyncio
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.meter import Meter
from benchmarks.workloads import Figure
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafscale.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from kafscale.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafscale.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from kafscale.wire.kafka.messages.heartbeat import HeartbeatRequest
from kafscale.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafscale.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafscale.wire.kafka.schema import Message
from tests.support.broker import KafscaleProcess
from tests.support.process import BrokerProcess

HEARTBEAT_S = 3.0
CONSUMER_HEARTBEAT_S = 5.0  # what the broker tells members of KIP-848
_SETTLING_S = 0.5  # between two heartbeats of a member while its group is not stable
_CONSUMER_BEAT, _CONSUMER_DESCRIBE = 1, 1  # versions
_JOIN, _SYNC, _BEAT, _COMMIT, _CREATE = 7, 5, 4, 8, 7  # versions
_FIND = 3
_ID_REQUIRED = 79
_NOT_YET = (14, 15, 16)  # the coordinator loads, is not there, is elsewhere


@dataclass(frozen=True, slots=True)
class Size:
    """How many of everything."""

    groups: int
    members: int  # of one group
    partitions: int  # of one group's topic
    beating_s: float
    commits: int
    committers: int  # members that commit, one request in flight each
    together: int  # members of the one group of KIP-848, and partitions of its topic


FULL = Size(100, 10, 50, 15.0, 50_000, 200, 1_000)
QUICK = Size(20, 10, 50, 3.0, 5_000, 100, 200)


def settings(size: Size) -> str:
    """How it was run, for the heading."""
    members = size.groups * size.members
    return (
        f"groups: {members:,} members in {size.groups} groups, a connection each, "
        f"{size.groups * size.partitions:,} partitions, the default initial delay of 3 s included; "
        f"heartbeats every {HEARTBEAT_S:.0f} s for {size.beating_s:.0f} s; {size.commits:,} "
        f"commits of one partition each, {size.committers} connections with one in flight; "
        f"one group of KIP-848 with {size.together:,} members and as many partitions; "
        "embedded store, default settings; the members are one Python process"
    )


class Member(asyncio.Protocol):
    """A connection with at most one request in flight."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self.member_id = ""
        self.generation = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if len(received) >= 4 and self._waiting is not None:
            (size,) = struct.unpack_from(">i", received)
            if len(received) >= 4 + size:
                answer, self._waiting = self._waiting, None
                answer.set_result(bytes(received[4 : 4 + size]))
                del received[: 4 + size]

    def connection_lost(self, problem: Exception | None) -> None:
        if self._waiting is not None:
            self._waiting.set_exception(problem or ConnectionResetError("closed by the broker"))

    async def send(self, request: bytes) -> bytes:
        """The raw answer."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    async def ask(self, request: Message, version: int) -> Message:
        kind = BY_KEY[request.api_key].response
        return frame.read_response(
            memoryview(await self.send(prepared(request, version))), kind, version
        )[1]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def prepared(request: Message, version: int) -> bytes:
    return b"".join(frame.request_frame(1, request, version, "bench"))


def figures(broker: BrokerProcess, size: Size) -> Iterator[Figure]:
    """Start the broker, measure, stop it."""
    with broker:
        yield from asyncio.run(_Crowd(broker, size).measure())


class _Crowd:
    def __init__(self, broker: BrokerProcess, size: Size) -> None:
        self._broker, self._size = broker, size
        self._groups: list[list[Member]] = []

    async def measure(self) -> list[Figure]:
        await self._create_topics()
        found = [await self._join_all(), await self._beat(), *await self._commit()]
        for member in self._all():
            member.close()
        return found + await ConsumerCrowd(self._broker, self._size).measure()

    def _all(self) -> list[Member]:
        return [member for group in self._groups for member in group]

    async def _connected(self) -> Member:
        loop = asyncio.get_running_loop()
        _, member = await loop.create_connection(Member, "127.0.0.1", self._broker.port)
        return member

    async def _create_topics(self) -> None:
        admin = await self._connected()
        size = self._size
        rows = [CreatableTopic(f"t-{n}", size.partitions, 1) for n in range(size.groups)]
        for at in range(0, len(rows), 20):
            answer = await admin.ask(CreateTopicsRequest(rows[at : at + 20], 60_000), _CREATE)
            _check(*(row.error_code for row in answer.topics))  # type: ignore[attr-defined]
        for number in range(size.groups):
            await self._wait_for_coordinator(admin, f"g-{number}")
        admin.close()

    async def _wait_for_coordinator(self, admin: Member, group_id: str) -> None:
        """Not measured: Kafka makes the topic of its offsets when a group is first asked for."""
        end_s = time.monotonic() + 60
        beat = HeartbeatRequest(group_id, 0, "none")
        while True:
            found = await admin.ask(FindCoordinatorRequest(key=group_id), _FIND)
            code = found.error_code or (await admin.ask(beat, _BEAT)).error_code  # type: ignore[attr-defined]
            if code not in _NOT_YET:
                return
            if time.monotonic() > end_s:
                raise RuntimeError(f"{group_id} has no coordinator: error {code}")
            await asyncio.sleep(0.1)

    async def _join_all(self) -> Figure:
        size = self._size
        with Meter(self._broker) as meter:
            self._groups = await asyncio.gather(*map(self._join_group, range(size.groups)))
        name = f"{len(self._all()):,} members in {size.groups} groups: connect and join to stable"
        return _figure(name, "s", meter.cost.wall_s, meter)

    async def _join_group(self, number: int) -> list[Member]:
        members = [await self._connected() for _ in range(self._size.members)]
        await asyncio.gather(*(self._join(member, number) for member in members))
        return members

    async def _join(self, member: Member, number: int) -> None:
        topic = f"t-{number}".encode()
        metadata = struct.pack(">hih", 1, 1, len(topic)) + topic + b"\xff\xff\xff\xff" + bytes(4)
        request = JoinGroupRequest(
            group_id=f"g-{number}",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", metadata)],
        )
        joined = await member.ask(request, _JOIN)
        assert joined.error_code == _ID_REQUIRED  # type: ignore[attr-defined]
        request.member_id = joined.member_id  # type: ignore[attr-defined]
        joined = await member.ask(request, _JOIN)
        _check(joined.error_code)  # type: ignore[attr-defined]
        member.member_id, member.generation = joined.member_id, joined.generation_id  # type: ignore[attr-defined]
        names = [row.member_id for row in joined.members]  # type: ignore[attr-defined]
        synced = await member.ask(self._sync(number, member, names, topic), _SYNC)
        _check(synced.error_code)  # type: ignore[attr-defined]
        if len(synced.assignment) < 16:  # type: ignore[attr-defined]
            raise RuntimeError("a member was assigned nothing")

    def _sync(
        self, number: int, member: Member, names: list[str], topic: bytes
    ) -> SyncGroupRequest:
        """What a member sends; the leader knows the names and deals the partitions out."""
        shares = [range(at, self._size.partitions, len(names)) for at in range(len(names))]
        assigned = [
            SyncGroupRequestAssignment(
                name,
                struct.pack(">hih", 1, 1, len(topic))
                + topic
                + struct.pack(f">i{len(share)}i", len(share), *share)
                + b"\xff\xff\xff\xff",
            )
            for name, share in zip(names, shares, strict=True)
        ]
        return SyncGroupRequest(
            f"g-{number}",
            member.generation,
            member.member_id,
            protocol_type="consumer",  # Apache Kafka refuses those that name none
            protocol_name="range",
            assignments=assigned,
        )

    async def _beat(self) -> Figure:
        """Every member says that it is alive, each at its own time."""
        size, members = self._size, self._all()
        frames = [
            prepared(HeartbeatRequest(f"g-{number}", member.generation, member.member_id), _BEAT)
            for number, group in enumerate(self._groups)
            for member in group
        ]
        with Meter(self._broker) as meter:
            end_s = time.monotonic() + size.beating_s
            await asyncio.gather(
                *(
                    self._beat_on(member, request, HEARTBEAT_S * at / len(members), end_s)
                    for at, (member, request) in enumerate(zip(members, frames, strict=True))
                )
            )
        cost = meter.cost
        name = f"heartbeats of {len(members):,} members: broker CPU, 100% is one core"
        return _figure(name, "%", 100 * cost.broker_cpu_s / cost.wall_s, meter)

    async def _beat_on(self, member: Member, request: bytes, first_s: float, end_s: float) -> None:
        await asyncio.sleep(first_s)
        while time.monotonic() < end_s:
            answer = await member.send(request)
            _check(*struct.unpack_from(">h", answer, 9))  # after correlation id, tags, throttle
            await asyncio.sleep(HEARTBEAT_S)

    async def _commit(self) -> list[Figure]:
        size = self._size
        chosen = [
            (number, at, group[at])
            for at in range(size.members)
            for number, group in enumerate(self._groups)
        ][: size.committers]
        left = iter(range(size.commits))

        async def commit(number: int, at: int, member: Member) -> None:
            for offset in left:
                row = OffsetCommitRequestPartition(at, offset, committed_metadata="")
                topics = [OffsetCommitRequestTopic(f"t-{number}", [row])]
                request = OffsetCommitRequest(
                    f"g-{number}", member.generation, member.member_id, topics=topics
                )
                answer = await member.send(prepared(request, _COMMIT))
                _check(*struct.unpack_from(">h", answer, len(answer) - 5))

        with Meter(self._broker) as meter:
            await asyncio.gather(*(commit(*one) for one in chosen))
        cost = meter.cost
        return [
            _figure("offset commits", "1/s", size.commits / cost.wall_s, meter),
            _figure(
                "offset commits: broker CPU each",
                "us",
                1e6 * cost.broker_cpu_s / size.commits,
                meter,
            ),
        ]


class ConsumerCrowd:
    """The members of one group of KIP-848."""

    def __init__(self, broker: BrokerProcess, size: Size) -> None:
        self._broker, self._size = broker, size
        self._members: list[Member] = []
        self._owned: dict[Member, list[OwnedTopicPartitions]] = {}

    async def measure(self) -> list[Figure]:
        loop = asyncio.get_running_loop()
        count = self._size.together
        for _ in range(count + 1):
            _, member = await loop.create_connection(Member, "127.0.0.1", self._broker.port)
            self._members.append(member)
        admin = self._members.pop()
        created = await admin.ask(
            CreateTopicsRequest([CreatableTopic("together", count, 1)], 60_000), _CREATE
        )
        _check(*(row.error_code for row in created.topics))  # type: ignore[attr-defined]
        with Meter(self._broker) as joining:
            await asyncio.gather(*(self._say(one, is_new=True) for one in self._members))
            while not await self._is_stable(admin):
                await asyncio.gather(*(self._say(one) for one in self._members))
                await asyncio.sleep(_SETTLING_S)
        with Meter(self._broker) as beating:
            end_s = time.monotonic() + self._size.beating_s
            await asyncio.gather(
                *(
                    self._beat_on(member, CONSUMER_HEARTBEAT_S * at / count, end_s)
                    for at, member in enumerate(self._members)
                )
            )
        for member in (admin, *self._members):
            member.close()
        group = f"{count:,} members of one group of KIP-848"
        cost, spent = beating.cost, joining.cost.broker_cpu_s
        return [
            _figure(f"{group}: join to stable", "s", joining.cost.wall_s, joining),
            _figure(f"{group}: broker CPU until stable", "CPU-s", spent, joining),
            _figure(
                f"{group}: heartbeats, broker CPU, 100% is one core",
                "%",
                100 * cost.broker_cpu_s / cost.wall_s,
                beating,
            ),
        ]

    async def _say(self, member: Member, *, is_new: bool = False) -> None:
        """A heartbeat with all that the member says of itself."""
        if is_new:
            member.member_id, member.generation = f"m-{id(member):x}", 0
        request = ConsumerGroupHeartbeatRequest(
            "together",
            member.member_id,
            member.generation,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["together"],
            topic_partitions=self._owned.get(member, []),
        )
        await self._hear(member, request)

    async def _hear(self, member: Member, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Send a heartbeat and take over epoch and partitions. Whether partitions have changed."""
        answer: Any = await member.ask(request, _CONSUMER_BEAT)
        _check(answer.error_code)
        member.generation = answer.member_epoch
        if answer.assignment is None:
            return False
        self._owned[member] = [
            OwnedTopicPartitions(row.topic_id, row.partitions)
            for row in answer.assignment.topic_partitions
        ]
        return True

    async def _is_stable(self, admin: Member) -> bool:
        described: Any = await admin.ask(
            ConsumerGroupDescribeRequest(["together"]), _CONSUMER_DESCRIBE
        )
        return bool(described.groups[0].group_state == "Stable")

    async def _beat_on(self, member: Member, first_s: float, end_s: float) -> None:
        """Heartbeats that say nothing new. A broker may raise the epoch also of a stable group."""
        has_changed = False
        await asyncio.sleep(first_s)
        while time.monotonic() < end_s:
            owned = self._owned.get(member, []) if has_changed else None
            beat = ConsumerGroupHeartbeatRequest(
                "together", member.member_id, member.generation, topic_partitions=owned
            )
            has_changed = await self._hear(member, beat)
            await asyncio.sleep(CONSUMER_HEARTBEAT_S)


def _figure(name: str, unit: str, value: float, meter: Meter) -> Figure:
    cost = meter.cost
    return Figure(
        name,
        unit,
        value,
        peak_rss_mb=cost.peak_rss_mb,
        client_cpu_share=cost.client_cpu_s / cost.wall_s,
    )


def _check(*codes: int) -> None:
    if any(codes):
        raise RuntimeError(f"the broker answered error {next(filter(None, codes))}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.groups", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the members")
    size = QUICK if parser.parse_args().quick else FULL
    print(settings(size), end="\n\n", flush=True)
    for figure in figures(KafscaleProcess(), size):
        share = f"{100 * (figure.client_cpu_share or 0):.0f}%"
        print(f"{figure.workload}: {figure.value:,.2f} {figure.unit} (clients' CPU {share})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
