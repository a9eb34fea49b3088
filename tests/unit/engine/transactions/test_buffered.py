"""Transactions whose records wait in the memory of the brokers that own the logs."""

import pytest

from kafscale.engine.transactions.gate import TransactionalBatch
from kafscale.engine.transactions.rows import RegisteredPartition
from kafscale.model.errors import (
    InvalidTransactionState,
    TransactionAbortable,
    TransactionPending,
)
from kafscale.records import batch
from kafscale.transactions.machine import NEW, Producer
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually
from tests.unit.gateways.kafka.caller import make_batch

PARTITIONS = 4
ID = "orders"
ONE_LOG = {"physical.partitions": "1"}


async def start(fleet: FleetHarness, **configs: str) -> list[Member]:
    """Three brokers that know a topic "t"."""
    members = await fleet.start_all(3)
    settings = {"transactions.buffered": "true", **configs}
    await members[0].engine.topics.create("t", PARTITIONS, settings)
    await eventually(lambda: all(member.engine.topics.find("t") for member in members))
    return members


async def send(
    fleet: FleetHarness, partition: int, producer: Producer, *, registers: bool = True
) -> None:
    """Append a batch of the transaction at the owner of its log, as a door does."""
    engine = fleet.owner("t", partition).engine
    topic = engine.topics.get("t")
    await engine.partitions.open(topic, partition)
    wanted = [TransactionalBatch(topic, partition, producer)]
    problems = await engine.transactions.admit(ID, wanted, registers=registers, is_abortable=False)
    if problems:
        raise problems[0]
    made = bytearray(
        make_batch(
            b"%d" % partition,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
        )
    )
    made[22] |= batch.TRANSACTIONAL
    batch.sign(made)
    stored = engine.partitions.append(topic, partition, memoryview(made), acknowledged=False)
    assert stored.appended.committed is None, "the answer waits for nothing"


async def ends(fleet: FleetHarness) -> list[tuple[int, int]]:
    """Last stable offset and high watermark of every partition."""
    results = [await fleet.owner("t", number).read("t", number) for number in range(PARTITIONS)]
    return [(result.last_stable, result.high) for result in results]


async def begin(member: Member) -> Producer:
    return await member.engine.transactions.begin_instance(ID, NEW, 60_000)


@pytest.mark.parametrize("configs", [ONE_LOG, {}], ids=["one log", "several logs"])
@pytest.mark.parametrize("raises_epoch", [True, False])
async def test_held_records_are_written_with_their_commit(
    configs: dict[str, str], raises_epoch: bool
) -> None:
    async with FleetHarness() as fleet:
        members = await start(fleet, **configs)
        producer = await begin(members[0])
        for number in range(PARTITIONS):
            await send(fleet, number, producer)
        assert await ends(fleet) == [(0, 0)] * PARTITIONS
        other = next(member for member in members if member is not fleet.owner("t", 0))
        following = await other.engine.transactions.end(
            ID, producer, commits=True, raises_epoch=raises_epoch
        )
        assert following == Producer(producer.producer_id, producer.epoch + raises_epoch)
        assert await ends(fleet) == [(2, 2)] * PARTITIONS
        described = await members[2].engine.transactions.describe(ID)
        assert (described.row.state_name, described.places) == ("CompleteCommit", frozenset())
        assert not described.row.is_lost
        if configs:
            folder = fleet.owner("t", 0).engine.topics.get("t").folder(0)
            found = [row.key for row in await fleet.objects.find(folder)]
            assert len(found) == 1, "all of the transaction is one object"


@pytest.mark.parametrize("configs", [ONE_LOG, {}], ids=["one log", "several logs"])
async def test_an_aborted_transaction_leaves_nothing(configs: dict[str, str]) -> None:
    async with FleetHarness() as fleet:
        members = await start(fleet, **configs)
        producer = await begin(members[0])
        for number in range(PARTITIONS):
            await send(fleet, number, producer)
        end = members[1].engine.transactions.end
        await end(ID, producer, commits=False, raises_epoch=True)
        assert await ends(fleet) == [(2, 2)] * PARTITIONS
        with pytest.raises(InvalidTransactionState):
            await end(ID, producer, commits=True, raises_epoch=True)


@pytest.mark.parametrize("configs", [ONE_LOG, {}], ids=["one log", "several logs"])
async def test_what_a_dead_broker_held_makes_the_commit_an_abort(configs: dict[str, str]) -> None:
    async with FleetHarness() as fleet:
        members = await start(fleet, **configs)
        producer = await begin(members[0])
        for number in range(PARTITIONS):
            await send(fleet, number, producer)
        dead = fleet.owner("t", 0)
        dead.wire.is_cut = True
        (lease,) = [lease for lease in dead.wire.leases if lease.remaining_s() > 0]
        alive = next(member for member in members if member is not dead)
        end = alive.engine.transactions.end
        with pytest.raises(TransactionPending):
            await end(ID, producer, commits=True, raises_epoch=False)
        await lease.revoke()  # as if it had not been renewed in time
        for _ in range(2):  # a client may ask again
            with pytest.raises(TransactionAbortable):
                await end(ID, producer, commits=True, raises_epoch=False)
        await end(ID, producer, commits=False, raises_epoch=False)
        await fleet.agree()
        for stable, high in await ends(fleet):
            assert stable == high
        described = await alive.engine.transactions.describe(ID)
        assert described.row.state_name == "CompleteAbort"
        following = await alive.engine.transactions.begin_instance(ID, producer, 60_000)
        assert following.epoch == producer.epoch + 1


@pytest.mark.parametrize("registers", [True, False])
async def test_a_log_that_was_opened_again_takes_no_more_of_the_transaction(
    registers: bool,
) -> None:
    async with FleetHarness() as fleet:
        members = await start(fleet, **ONE_LOG)
        producer = await begin(members[0])
        if not registers:
            topic = members[0].engine.topics.get("t")
            places = [
                RegisteredPartition(topic.descriptor.topic_id, "t", number)
                for number in range(PARTITIONS)
            ]
            await members[0].engine.transactions.register(ID, producer, places)
        await send(fleet, 0, producer, registers=registers)
        owner = fleet.owner("t", 0)
        ((_, log),) = owner.parts.logs.each()
        await log.reopen("a test")
        with pytest.raises(InvalidTransactionState):
            await send(fleet, 1, producer, registers=registers)
        with pytest.raises(TransactionAbortable):
            await members[0].engine.transactions.end(ID, producer, commits=True, raises_epoch=True)
        for stable, high in await ends(fleet):
            assert stable == high


async def test_a_second_instance_aborts_what_is_held() -> None:
    async with FleetHarness() as fleet:
        members = await start(fleet, **ONE_LOG)
        producer = await begin(members[0])
        await send(fleet, 0, producer)
        second = await begin(members[1])
        assert second.epoch > producer.epoch
        results = await ends(fleet)
        assert results[0] == (2, 2)
