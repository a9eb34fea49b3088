"""Transactions over the logs of several brokers."""

from typing import Any
from unittest.mock import patch

import pytest

from kafscale.admin.bucket import recovery
from kafscale.engine.transactions.gate import TransactionalBatch
from kafscale.engine.transactions.rows import RegisteredPartition
from kafscale.log.catalog import bucket_scan
from kafscale.log.writer import transaction_ends
from kafscale.metadata.store import Entry, Remove
from kafscale.model.errors import TransactionPending
from kafscale.model.topics import TopicDefaults
from kafscale.records import batch
from kafscale.transactions.machine import NEW, Producer
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually, with_topic
from tests.unit.gateways.kafka.caller import make_batch

PARTITIONS = 6
ID = "orders"


async def begin(member: Member, partitions: int = PARTITIONS) -> Producer:
    """A transaction that is registered with all partitions."""
    transactions = member.engine.transactions
    producer = await transactions.begin_instance(ID, NEW, 60_000)
    topic = member.engine.topics.get("t")
    places = [
        RegisteredPartition(topic.descriptor.topic_id, "t", number) for number in range(partitions)
    ]
    await transactions.register(ID, producer, places)
    return producer


async def send(member: Member, partition: int, producer: Producer, value: bytes) -> None:
    """Append a batch of the transaction, as a door does."""
    engine = member.engine
    topic = engine.topics.get("t")
    await engine.partitions.open(topic, partition)
    wanted = [TransactionalBatch(topic, partition, producer)]
    problems = await engine.transactions.admit(ID, wanted, registers=False, is_abortable=False)
    assert problems == {}
    made = bytearray(
        make_batch(
            value,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
        )
    )
    made[22] |= batch.TRANSACTIONAL
    batch.sign(made)
    stored = engine.partitions.append(topic, partition, memoryview(made), acknowledged=False)
    assert stored.appended.committed is not None
    assert await stored.appended.committed is None


async def ends(fleet: FleetHarness) -> list[tuple[int, int]]:
    """Last stable offset and high watermark of every partition."""
    results = [await fleet.owner("t", number).read("t", number) for number in range(PARTITIONS)]
    return [(result.last_stable, result.high) for result in results]


@pytest.mark.parametrize("commits", [True, False])
async def test_every_owner_writes_the_markers_of_its_logs(commits: bool) -> None:
    async with FleetHarness() as fleet:
        members = await with_topic(fleet, 3, PARTITIONS)
        producer = await begin(members[0])
        owners = {fleet.owner("t", number).fleet_id for number in range(PARTITIONS)}
        assert len(owners) > 1, "a test of one owner would prove nothing"
        for number in range(PARTITIONS - 1):  # the last one gets no record
            await send(fleet.owner("t", number), number, producer, b"%d" % number)
        assert await ends(fleet) == [(0, 1)] * (PARTITIONS - 1) + [(0, 0)]
        following = await members[1].engine.transactions.end(
            ID, producer, commits=commits, raises_epoch=False
        )
        assert following == producer
        assert await ends(fleet) == [(2, 2)] * (PARTITIONS - 1) + [(1, 1)]
        described = await members[2].engine.transactions.describe(ID)
        state = "CompleteCommit" if commits else "CompleteAbort"
        assert (described.row.state.value, described.places) == (state, frozenset())
        assert await begin(members[2]) == Producer(producer.producer_id, producer.epoch + 1)


async def test_the_successor_of_a_dead_owner_writes_its_markers() -> None:
    async with FleetHarness() as fleet:
        members = await with_topic(fleet, 3, PARTITIONS)
        producer = await begin(members[0])
        for number in range(PARTITIONS):
            await send(fleet.owner("t", number), number, producer, b"%d" % number)
        dead = fleet.owner("t", 0)
        dead.wire.is_cut = True
        (lease,) = [lease for lease in dead.wire.leases if lease.remaining_s() > 0]
        alive = next(member for member in members if member is not dead)
        end = alive.engine.transactions.end
        with pytest.raises(TransactionPending):
            await end(ID, producer, commits=True, raises_epoch=False)
        await lease.revoke()  # as if it had not been renewed in time
        await end(ID, producer, commits=True, raises_epoch=False)
        await fleet.agree()
        assert await ends(fleet) == [(2, 2)] * PARTITIONS


async def test_registrations_are_read_once_for_all_requests_of_a_transaction() -> None:
    async with FleetHarness() as fleet:
        (member,) = await with_topic(fleet, 1, PARTITIONS)
        honest, lists = member.wire.inner.find, []

        async def find(prefix: str, **limits: Any) -> list[Entry]:
            lists.extend([prefix] if ID in prefix else [])
            return await honest(prefix, **limits)

        with patch.object(member.wire.inner, "find", find):
            for turn in range(2):
                producer = await begin(member)
                lists.clear()
                for number in range(PARTITIONS):
                    await send(member, number, producer, b"%d" % turn)
                assert len(lists) <= 1
                await member.engine.transactions.end(ID, producer, commits=True, raises_epoch=False)


async def test_a_registration_of_an_earlier_transaction_does_not_count() -> None:
    async with FleetHarness() as fleet:
        (member,) = await with_topic(fleet, 1, PARTITIONS)
        transactions, topic = member.engine.transactions, member.engine.topics.get("t")
        producer = await begin(member)
        await send(member, 1, producer, b"first")
        await transactions.end(ID, producer, commits=True, raises_epoch=False)
        place = RegisteredPartition(topic.descriptor.topic_id, "t", 0)
        await transactions.register(ID, producer, [place])  # the next one, of the same epoch
        wanted = [TransactionalBatch(topic, number, producer) for number in (0, 1)]
        refused = await transactions.admit(ID, wanted, registers=False, is_abortable=False)
        assert list(refused) == [1]


async def test_what_no_row_claims_is_aborted() -> None:
    async with FleetHarness() as fleet:
        members = await with_topic(fleet, 2, PARTITIONS)
        producer = await begin(members[0])
        await send(fleet.owner("t", 0), 0, producer, b"lost")
        # As after a loss of the metadata store: nothing is left of the id.
        for entry in await fleet.metadata.find("/kafscale/transactions/"):
            await fleet.metadata.commit([Remove(entry.key)])
        owner = fleet.owner("t", 0)
        topic = owner.engine.topics.get("t")
        _, lane = await owner.parts.logs.open(topic, 0)
        assert lane.stable == 0
        await eventually(lambda: lane.stable == 2)
        assert [row.producer_id for row in lane.transactions.aborted] == [producer.producer_id]


async def test_a_recovery_commits_what_a_marker_somewhere_calls_committed() -> None:
    async with FleetHarness() as fleet:
        members = await with_topic(fleet, 2, PARTITIONS)
        producer = await begin(members[0])
        lanes = []
        for number in range(3):
            owner = fleet.owner("t", number)
            await send(owner, number, producer, b"%d" % number)
            log, lane = await owner.parts.logs.open(owner.engine.topics.get("t"), number)
            lanes.append((log, lane))
        # The store is lost when one of three markers has been written.
        log, lane = lanes[0]
        marked = transaction_ends.end_transaction(
            log, lane.number, producer.producer_id, producer.epoch + 1, 1, committed=True
        )
        assert marked is not None
        assert await marked is None
        evidence = await bucket_scan.gather(fleet.objects, "default", members[0].parts.clock)
        lost = [
            *await fleet.metadata.find("/kafscale/transactions/"),
            *await fleet.metadata.find("/kafscale/producers/"),
        ]
        await fleet.metadata.commit([Remove(entry.key) for entry in lost])
        wanted = await recovery.plan(fleet.metadata, evidence, TopicDefaults())
        assert wanted.transactions == 1
        await fleet.metadata.commit([row for row in wanted.writes if "/producers/" in row.key])
        for _, lane in lanes:
            await eventually(lambda lane=lane: lane.stable == 2)
            assert lane.transactions.aborted == []
            assert lane.transactions.markers[producer.producer_id].turn == 1
