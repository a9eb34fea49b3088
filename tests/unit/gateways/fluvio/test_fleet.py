"""Several brokers: one SPU each, leaders as Kafka clients see them, moves pushed by a watch."""

from typing import Any

import pytest

from kafscale.groups.classic.events import Join, Joined, Sync, Synced
from kafscale.model.endpoints import Endpoint
from kafscale.wire.fluvio.errors import NO_ERROR, FluvioCode
from kafscale.wire.fluvio.messages.consumer_offsets import (
    DeleteConsumerOffsetRequest,
    DeleteConsumerOffsetResponse,
    FetchConsumerOffsetsRequest,
    FetchConsumerOffsetsResponse,
    ReplicaKey,
    UpdateConsumerOffsetRequest,
    UpdateConsumerOffsetResponse,
)
from kafscale.wire.fluvio.messages.objects import PartitionObject, SpuObject
from kafscale.wire.fluvio.messages.watch import DELETE, WatchRequest
from kafscale.wire.fluvio.schema import FluvioTable
from tests.support.fluvio_records import write_batch
from tests.support.fluvio_wire import FluvioConnection, Updates
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually
from tests.unit.gateways.fluvio.conftest import WITH_FLUVIO
from tests.unit.gateways.fluvio.test_data import (
    StreamFetchRequest,
    StreamOf,
    produce,
    produce_request,
    values,
)

pytestmark = pytest.mark.real_time
V, WATCH = 19, 1004
COMMIT, DELETE_COMMITTED, FETCH_COMMITTED = 1006, 1007, 1008
PARTITIONS = 8


class Known:
    """The objects of one kind as a client knows them by its watch."""

    def __init__(self, control: FluvioConnection, label: str, kind: type[FluvioTable]) -> None:
        self._control, self._kind = control, kind
        self._number = control.ask_about(WATCH, V, label, WatchRequest())
        self.by_name: dict[str, Any] = {}

    async def take(self) -> None:
        """Take the next message of the watch."""
        updates = Updates((await self._control.payload(self._number, V))[1], self._kind, V)
        if updates.all:
            self.by_name = {row.name: row for row in updates.all}
        for change, row in updates.changes:
            if change == DELETE:
                del self.by_name[row.name]
            else:
                self.by_name[row.name] = row


async def data_of(spu: SpuObject) -> FluvioConnection:
    """Connect where a client would."""
    host = spu.public_endpoint.ingress[0].hostname
    assert host is not None
    return await FluvioConnection.open(Endpoint(host, spu.public_endpoint.port))


def leaders(member: Member) -> dict[str, int]:
    """What Kafka clients of this broker are told."""
    topic = member.engine.topics.get("t")
    leader_of = member.engine.cluster.leader_of
    return {f"t-{number}": leader_of(topic.folder(number)) for number in range(PARTITIONS)}


async def test_clients_find_every_leader_and_hear_of_moves() -> None:
    async with FleetHarness(gather_s=0.05) as fleet:
        first = await fleet.start(1, WITH_FLUVIO)
        endpoint = first.broker.endpoints["FLUVIO_SC"]
        async with await FluvioConnection.open(endpoint) as control:
            spus = Known(control, "SPU", SpuObject)
            partitions = Known(control, "Partition", PartitionObject)
            await spus.take()
            await partitions.take()
            assert set(spus.by_name) == {"spu-1"}
            second = await fleet.start(2, WITH_FLUVIO)
            await fleet.agree()
            await first.engine.topics.create("t", PARTITIONS, {})
            await eventually(lambda: second.engine.topics.find("t") is not None)
            while set(spus.by_name) != {"spu-1", "spu-2"}:
                await spus.take()
            while not _are_led(partitions, leaders(first)):
                await partitions.take()
            assert set(leaders(first).values()) == {1, 2}
            await _produce_everywhere(spus, partitions)
            moved = next(name for name, row in partitions.by_name.items() if row.leader == 2)
            number = int(moved.removeprefix("t-"))
            fleet.members.remove(second)
            await second.broker.stop()
            while not _are_led(partitions, dict.fromkeys(leaders(first), 1)):
                await partitions.take()
            while set(spus.by_name) != {"spu-1"}:
                await spus.take()
            async with await data_of(spus.by_name["spu-1"]) as data:
                stream = StreamOf(data, StreamFetchRequest("t", number, max_bytes=1 << 20))
                assert (await stream.read())[0] == [(0, moved.encode())]


def _are_led(partitions: Known, wanted: dict[str, int]) -> bool:
    rows = partitions.by_name
    return all(name in rows and rows[name].leader == leader for name, leader in wanted.items())


async def _produce_everywhere(spus: Known, partitions: Known) -> None:
    """Write to each partition at its leader; the other broker refuses it."""
    by_id = {row.id: row for row in spus.by_name.values()}
    connections = {number: await data_of(row) for number, row in by_id.items()}
    for name, row in partitions.by_name.items():
        if name.startswith("t-"):
            number = int(name.removeprefix("t-"))
            request = produce_request(write_batch(values(name)), partition=number)
            (stored,) = await produce(connections[row.leader], request)
            assert (stored.error, stored.base_offset) == (NO_ERROR, 0)
            (refused,) = await produce(connections[3 - row.leader], request)
            assert refused.error.code == FluvioCode.NOT_LEADER_FOR_PARTITION
    for connection in connections.values():
        await connection.aclose()


async def test_every_broker_commits_lists_and_deletes_offsets() -> None:
    async with FleetHarness(gather_s=0.05) as fleet:
        members = [await fleet.start(number, WITH_FLUVIO) for number in (1, 2)]
        await fleet.agree()
        await members[0].engine.topics.create("t", PARTITIONS, {})
        await eventually(lambda: members[1].engine.topics.find("t") is not None)
        owner = fleet.owner("t", 0)
        await owner.append("t", 0, b"a", b"b")
        (other,) = (member for member in members if member is not owner)
        group = next(
            name for name in map(str, range(100)) if other.engine.cluster.may_coordinate(name)
        )
        place = ReplicaKey("t", 0)
        async with (
            await FluvioConnection.open(owner.broker.endpoints["FLUVIO_SPU"]) as data,
            await FluvioConnection.open(other.broker.endpoints["FLUVIO_SPU"]) as elsewhere,
        ):
            wanted = StreamFetchRequest("t", max_bytes=1 << 20, consumer_id=group)
            _, _, stream_id = await StreamOf(data, wanted).read()
            commit = UpdateConsumerOffsetRequest(1, stream_id)
            answer = await data.ask(COMMIT, 24, commit, UpdateConsumerOffsetResponse)
            assert answer.error == NO_ERROR
            for connection in (data, elsewhere):
                found = await connection.ask(
                    FETCH_COMMITTED,
                    24,
                    FetchConsumerOffsetsRequest(),
                    FetchConsumerOffsetsResponse,
                )
                assert [(one.consumer_id, one.offset) for one in found.consumers] == [(group, 1)]
            committed = await other.engine.offsets.committed(group)
            assert committed["t", 0].offset == 2
            gone = await data.ask(
                DELETE_COMMITTED,
                24,
                DeleteConsumerOffsetRequest(place, group),
                DeleteConsumerOffsetResponse,
            )
            assert gone.error == NO_ERROR
            assert await other.engine.offsets.committed(group) == {}
            await _join(other, group)
            answer = await data.ask(COMMIT, 24, commit, UpdateConsumerOffsetResponse)
            assert "has members" in str(answer.error.details[0])


async def _join(member: Member, group: str) -> None:
    """Give a group a member, with its record saved."""
    groups = member.engine.groups
    await groups.load(group)
    joining = Join(
        call=groups.new_call(),
        fresh_id="m",
        session_timeout_s=10.0,
        rebalance_timeout_s=10.0,
        protocol_type="consumer",
        protocols={"range": b""},
    )
    joined = await groups.settled(group, groups.ask(group, joining), "m")
    assert isinstance(joined, Joined)
    syncing = Sync(
        call=groups.new_call(),
        generation=joined.generation,
        member_id="m",
        assignments={"m": b"all"},
    )
    assert isinstance(await groups.settled(group, groups.ask(group, syncing), "m"), Synced)
