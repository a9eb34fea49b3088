"""The APIs of transactions, as a client without a library sees them."""

from typing import Any

import pytest

from kafscale.records import batch
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafscale.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafscale.wire.kafka.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafscale.wire.kafka.messages.describe_transactions import DescribeTransactionsRequest
from kafscale.wire.kafka.messages.end_txn import EndTxnRequest
from kafscale.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from kafscale.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from kafscale.wire.kafka.messages.list_transactions import ListTransactionsRequest
from kafscale.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafscale.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.gateways.kafka.caller import Caller, make_batch

ID = "orders"


class Producer:
    """A transactional producer, message by message."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.producer_id = self.epoch = -1
        self.sequence = 0

    async def begin(self) -> "Producer":
        answer = await self.caller.ask(InitProducerIdRequest(ID, 60_000), 4)
        assert answer.error_code == 0
        self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return self

    async def add(self, *partitions: int, topic: str = "t") -> list[int]:
        asked = AddPartitionsToTxnTopic(topic, list(partitions))
        request = AddPartitionsToTxnRequest(ID, self.producer_id, self.epoch, [asked])
        answer = await self.caller.ask(request, 3)
        (row,) = answer.results_by_topic_v3_and_below
        return [one.partition_error_code for one in row.results_by_partition]

    async def send(self, value: bytes, partition: int = 0, acks: int = -1) -> int:
        made = bytearray(
            make_batch(
                value,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self.sequence,
            )
        )
        made[22] |= batch.TRANSACTIONAL
        batch.sign(made)
        data = [TopicProduceData("t", [PartitionProduceData(partition, bytes(made))])]
        answer = await self.caller.ask(ProduceRequest(ID, acks, 10_000, data), 9)
        code: int = answer.responses[0].partition_responses[0].error_code
        self.sequence += code == 0
        return code

    async def end(self, *, commits: bool, version: int = 3) -> Any:
        request = EndTxnRequest(ID, self.producer_id, self.epoch, commits)
        return await self.caller.ask(request, version)

    async def add_group(self) -> int:
        request = AddOffsetsToTxnRequest(ID, self.producer_id, self.epoch, "g")
        code: int = (await self.caller.ask(request, 3)).error_code
        return code

    async def send_offset(self, offset: int, version: int = 3) -> int:
        row = TxnOffsetCommitRequestPartition(0, offset)
        request = TxnOffsetCommitRequest(
            ID, "g", self.producer_id, self.epoch, topics=[TxnOffsetCommitRequestTopic("t", [row])]
        )
        answer = await self.caller.ask(request, version)
        code: int = answer.topics[0].partitions[0].error_code
        return code


@pytest.fixture
async def producer(caller: Caller) -> Producer:
    await caller.create("t", partitions=3)
    return await Producer(caller).begin()


async def states(caller: Caller, *filters: str) -> list[tuple[str, str]]:
    answer = await caller.ask(ListTransactionsRequest(list(filters)), 0)
    return [(row.transactional_id, row.transaction_state) for row in answer.transaction_states]


async def test_a_transaction_from_begin_to_end(caller: Caller, producer: Producer) -> None:
    assert await states(caller) == [(ID, "Empty")]
    assert await producer.add(0, 2) == [0, 0]
    assert await producer.send(b"a") == 0
    assert await states(caller, "Ongoing") == [(ID, "Ongoing")]
    (row,) = (await caller.ask(DescribeTransactionsRequest([ID]), 0)).transaction_states
    assert (row.transaction_state, row.producer_id) == ("Ongoing", producer.producer_id)
    assert [(topic.topic, topic.partitions) for topic in row.topics] == [("t", [0, 2])]
    assert (await caller.offset("t", -1)).offset == 1
    assert (await producer.end(commits=True)).error_code == 0
    assert await states(caller) == [(ID, "CompleteCommit")]
    # The marker takes an offset, in partition 2 too, where no record came.
    assert [(await caller.offset("t", -1, partition=at)).offset for at in range(3)] == [2, 0, 1]
    assert (await producer.end(commits=True)).error_code == 0, "sent again"
    assert (await producer.end(commits=False)).error_code == ErrorCode.INVALID_TXN_STATE


async def test_partitions_are_registered_together_or_not_at_all(producer: Producer) -> None:
    codes = await producer.add(0, 9)
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await producer.send(b"a") == ErrorCode.INVALID_TXN_STATE


async def test_a_batch_needs_its_partition_registered_and_an_answer(producer: Producer) -> None:
    assert await producer.send(b"a") == ErrorCode.INVALID_TXN_STATE
    assert await producer.add(0) == [0]
    assert await producer.send(b"a", partition=1) == ErrorCode.INVALID_TXN_STATE
    assert await producer.send(b"a") == 0
    assert (await producer.end(commits=True)).error_code == 0
    assert await producer.send(b"late") == ErrorCode.INVALID_TXN_STATE


async def test_an_older_instance_is_fenced_everywhere(caller: Caller, producer: Producer) -> None:
    await producer.add(0)
    assert await producer.send(b"a") == 0
    later = await Producer(caller).begin()
    assert later.epoch > producer.epoch
    assert await producer.add(1) == [ErrorCode.PRODUCER_FENCED]
    assert await producer.send(b"b") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await producer.end(commits=True)).error_code == ErrorCode.PRODUCER_FENCED
    answer = await producer.end(commits=True, version=1)
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await later.add(0) == [0]
    assert await later.send(b"c") == 0
    assert (await later.end(commits=True)).error_code == 0


async def test_another_producer_gets_no_transaction(caller: Caller, producer: Producer) -> None:
    producer.producer_id += 1
    assert await producer.add(0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    answer = await producer.end(commits=True)
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_the_next_epoch_comes_with_the_answer_from_version_5_on(producer: Producer) -> None:
    await producer.add(0)
    await producer.send(b"a")
    answer = await producer.end(commits=True, version=5)
    assert (answer.producer_id, answer.producer_epoch) == (
        producer.producer_id,
        producer.epoch + 1,
    )
    again = await producer.end(commits=True, version=5)
    assert (again.error_code, again.producer_epoch) == (0, producer.epoch + 1)
    assert await producer.send(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("commits", [True, False])
async def test_offsets_wait_for_the_end(caller: Caller, producer: Producer, commits: bool) -> None:
    async def committed(*, stable: bool) -> tuple[int, int]:
        asked = [OffsetFetchRequestTopic("t", [0])]
        request = OffsetFetchRequest("g", asked, require_stable=stable)
        row = (await caller.ask(request, 7)).topics[0].partitions[0]
        return row.error_code, row.committed_offset

    assert await producer.send_offset(5) == ErrorCode.INVALID_TXN_STATE
    assert await producer.send_offset(5, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.add_group() == 0
    assert await producer.send_offset(5) == 0
    assert await producer.send_offset(6) == 0
    assert await committed(stable=False) == (0, -1)
    assert await committed(stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert (await producer.end(commits=commits)).error_code == 0
    assert await committed(stable=True) == (0, 6 if commits else -1)


async def test_producers_are_described_with_their_transactions(
    caller: Caller, producer: Producer
) -> None:
    await producer.add(0)
    await producer.send(b"a")
    asked = DescribeProducersRequest([TopicRequest("t", [0])])
    (row,) = (await caller.ask(asked, 0)).topics[0].partitions[0].active_producers
    assert (row.current_txn_start_offset, row.coordinator_epoch) == (0, -1)
    await producer.end(commits=False)
    (row,) = (await caller.ask(asked, 0)).topics[0].partitions[0].active_producers
    assert (row.current_txn_start_offset, row.coordinator_epoch) == (-1, 1)


async def test_a_transaction_outlives_a_restart(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t")
    producer = await Producer(caller).begin()
    await producer.add(0)
    await producer.send(b"a")
    await broker.restart()
    async with Caller(broker.port) as later:
        producer.caller = later
        assert await producer.send(b"b") == 0
        assert (await producer.end(commits=True)).error_code == 0
        assert (await later.offset("t", -1)).offset == 3


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.UNKNOWN_PRODUCER_ID), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
async def test_clients_of_every_version_hear_that_held_records_are_lost(
    broker: InProcessBroker, caller: Caller, version: int, code: ErrorCode
) -> None:
    await caller.create("t", partitions=3, configs={"transactions.buffered": "true"})
    producer = await Producer(caller).begin()
    assert await producer.add(0) == [0]
    assert await producer.send(b"held") == 0
    await broker.restart()
    async with Caller(broker.port) as later:
        producer.caller = later
        assert (await producer.end(commits=True, version=version)).error_code == code
        assert await states(later) == [(ID, "CompleteAbort")]


async def test_lists_are_filtered(caller: Caller, producer: Producer) -> None:
    answer = await caller.ask(ListTransactionsRequest(["Ongoing", "Lost", "Lost"]), 2)
    assert (answer.unknown_state_filters, answer.transaction_states) == (["Lost"], [])
    for pattern, found in (("ord.*", 1), ("x.*", 0)):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        assert len((await caller.ask(request, 2)).transaction_states) == found
    bad = await caller.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_an_id_that_is_not_there_is_not_found(caller: Caller) -> None:
    answer = await caller.ask(DescribeTransactionsRequest(["a", "b", "a"]), 0)
    found = [(row.transactional_id, row.error_code) for row in answer.transaction_states]
    assert found == [(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND) for name in ("a", "b")]


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_transactional_id_has_a_coordinator(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    answer = await caller.ask(FindCoordinatorRequest("tx", 1, ["tx"]), version)
    (row,) = [answer] if version < 4 else answer.coordinators
    assert (row.error_code, row.node_id) == (0, broker.engine.identity.broker_id)
