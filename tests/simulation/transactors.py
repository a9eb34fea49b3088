"""Simulated transactional producers: they commit, abort, give up, and come again as zombies.

In this room: what a client does about its transactions, with an epoch for each (as Java 4) or
without (as librdkafka).
Next door: connections (cluster.py), readers of committed records (committed.py), the words of the
history (tests/faults/transaction_checker.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafscale.records import batch
from kafscale.records.record import Record, build_batch
from kafscale.testing.simulated.clock import wall_ms
from kafscale.wire.kafka.errors import RETRIABLE, ErrorCode
from kafscale.wire.kafka.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    find_coordinator,
    init_producer_id,
    produce,
    txn_offset_commit,
)
from kafscale.wire.kafka.schema import Message
from tests.faults.history import FAILED, OK
from tests.faults.transaction_checker import ABORT, COMMIT, Transaction, TransactionHistory
from tests.simulation.cluster import Cluster, Connection, Unanswered
from tests.simulation.places import Place
from tests.simulation.producers import TIMEOUT_MS

GROUP_TYPE, ID_TYPE = 0, 1
_TRIES = 12
_LEFT_OPEN, _ABORTED, _FENCED = 0.1, 0.2, 0.1  # how often a transaction ends that way
TIMEOUTS_MS = (2_000, 60_000)
_VERSIONS = {  # by API, without and with an epoch for each transaction
    0: (9, 12),
    10: (2, 2),
    22: (4, 5),
    24: (3, 3),
    25: (3, 3),
    26: (3, 5),
    28: (3, 5),
}


class Refused(Exception):
    """The transaction cannot go on; its client starts over."""


@dataclass(slots=True)
class _Identity:
    producer_id: int
    epoch: int
    sequences: dict[Place, int] = field(default_factory=dict)


class Transactor:
    """One transactional id."""

    def __init__(
        self, cluster: Cluster, history: TransactionHistory, *, raises_epoch: bool
    ) -> None:
        self._cluster = cluster
        self._history = history
        self._raises_epoch = raises_epoch
        self.id = cluster.name
        self._number = 0
        self._timeout_ms = cluster.dice.choice(TIMEOUTS_MS)

    async def run(self, places: Sequence[Place], count: int, pause_s: float) -> None:
        """Make so many transactions, then end what is left open."""
        dice = self._cluster.dice
        identity = await self._begin_instance()
        for _ in range(count):
            await asyncio.sleep(dice.random() * pause_s)
            try:
                fine = await self._transaction(identity, places)
            except Refused:
                fine = False
            if not fine:
                identity = await self._begin_instance()

    # -- asking until there is an answer -------------------------------------------------------

    async def _ask(
        self, to: Callable[[], Any], message: Message, code_of: Callable[[Any], int], tries: int
    ) -> Any:
        """Ask until the answer is no error that clients retry; Unanswered after some tries."""
        version = _VERSIONS[message.api_key][self._raises_epoch]
        for _ in range(tries):
            try:
                connection: Connection = await to()
                answer = await connection.ask(message, version=version)
            except Unanswered:
                self._cluster.hang_up()
            else:
                if ErrorCode(code_of(answer)) not in RETRIABLE:
                    return answer
            await asyncio.sleep(0.1 + self._cluster.dice.random() * 0.5)
        raise Unanswered("no answer that counts")

    async def _coordinator(self, key: str, key_type: int) -> Connection:
        request = find_coordinator.FindCoordinatorRequest(key=key, key_type=key_type)
        found = await (await self._cluster.any()).ask(request)
        if found.error_code:
            raise Unanswered("no coordinator")
        return await self._cluster.to((found.host, found.port))

    async def _ask_coordinator(self, message: Message, tries: int = _TRIES) -> Any:
        answer = await self._ask(
            lambda: self._coordinator(self.id, ID_TYPE), message, lambda row: row.error_code, tries
        )
        if answer.error_code:
            raise Refused(ErrorCode(answer.error_code).name)
        return answer

    async def _begin_instance(self) -> _Identity:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=self.id, transaction_timeout_ms=self._timeout_ms
        )
        while True:
            try:
                told = await self._ask_coordinator(request)
                return _Identity(told.producer_id, told.producer_epoch)
            except (Unanswered, Refused):
                await asyncio.sleep(0.3)

    # -- one transaction -----------------------------------------------------------------------

    async def _transaction(self, identity: _Identity, places: Sequence[Place]) -> bool:
        """Whether the identity can go on."""
        dice = self._cluster.dice
        self._number += 1
        made = Transaction(self.id, self._number)
        self._history.transactions.append(made)
        chosen = dice.sample(list(places), dice.randint(1, len(places)))
        try:
            await self._fill(made, identity, chosen)
            is_whole = True
        except Unanswered:
            is_whole = False  # clients abort then
        how = dice.random()
        if how < _LEFT_OPEN:
            return False
        if how < _LEFT_OPEN + _FENCED:
            younger = await self._begin_instance()
            made.fenced_s = asyncio.get_running_loop().time()
            await asyncio.sleep(0.001)
            await self._end(made, identity, COMMIT if is_whole else ABORT)
            identity.producer_id, identity.epoch = younger.producer_id, younger.epoch
            identity.sequences.clear()
            return True
        aborts = not is_whole or how < _LEFT_OPEN + _FENCED + _ABORTED
        is_known = await self._end(made, identity, ABORT if aborts else COMMIT)
        # A batch without an answer may be stored: its sequence must not come again in this epoch.
        return is_known and (is_whole or self._raises_epoch)

    async def _fill(self, made: Transaction, identity: _Identity, chosen: list[Place]) -> None:
        if not self._raises_epoch:
            await self._register(identity, chosen)
        for place in chosen:
            for part in range(self._cluster.dice.randint(1, 2)):
                value = f"{self.id} {made.number} {place.number} {part}"
                made.sent.append(value)
                await self._produce(identity, place, value)
                made.stored.append((place.number, value))
        if self._cluster.dice.random() < 0.5:
            await self._commit_offset(identity, chosen[0], made.number)
            made.offset = made.number

    async def _register(self, identity: _Identity, chosen: list[Place]) -> None:
        topics: dict[str, list[int]] = {}
        for place in chosen:
            topics.setdefault(place.topic, []).append(place.partition)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name, rows)
                for name, rows in topics.items()
            ],
        )

        def code_of(answer: Any) -> int:
            codes = [
                row.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ]
            return int(next((code for code in codes if code), 0))

        answer = await self._ask(
            lambda: self._coordinator(self.id, ID_TYPE), request, code_of, _TRIES
        )
        if code_of(answer):
            raise Refused(ErrorCode(code_of(answer)).name)

    async def _produce(self, identity: _Identity, place: Place, value: str) -> None:
        sequence = identity.sequences.get(place, 0)
        now_ms = wall_ms(asyncio.get_running_loop().time())
        data = bytearray(
            build_batch(
                [Record(0, now_ms, None, value.encode())],
                base_offset=0,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=sequence,
            )
        )
        data[batch.SIGNED_FROM : batch.SIGNED_FROM + 2] = batch.TRANSACTIONAL.to_bytes(2, "big")
        batch.sign(data)
        row = produce.PartitionProduceData(index=place.partition, records=memoryview(bytes(data)))
        request = produce.ProduceRequest(
            transactional_id=self.id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[produce.TopicProduceData(name=place.topic, partition_data=[row])],
        )

        async def leader() -> Connection:
            self._cluster.forget(place)
            return await self._cluster.leader(place)

        def code_of(answer: Any) -> int:
            return int(answer.responses[0].partition_responses[0].error_code)

        code = code_of(await self._ask(leader, request, code_of, _TRIES))
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise Refused(ErrorCode(code).name)
        identity.sequences[place] = sequence + 1

    async def _commit_offset(self, identity: _Identity, place: Place, offset: int) -> None:
        if not self._raises_epoch:
            registration = add_offsets_to_txn.AddOffsetsToTxnRequest(
                transactional_id=self.id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                group_id=self.id,
            )
            await self._ask_coordinator(registration)
        part = txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        request = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=self.id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(place.topic, [part])],
        )

        def code_of(answer: Any) -> int:
            return int(answer.topics[0].partitions[0].error_code)

        code = code_of(
            await self._ask(
                lambda: self._coordinator(self.id, GROUP_TYPE), request, code_of, _TRIES
            )
        )
        if code:
            raise Refused(ErrorCode(code).name)

    async def _end(self, made: Transaction, identity: _Identity, wanted: str) -> bool:
        made.wanted = wanted
        made.asked_s = asyncio.get_running_loop().time()
        request = end_txn.EndTxnRequest(
            transactional_id=self.id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=wanted == COMMIT,
        )
        try:
            told = await self._ask_coordinator(request, tries=1)
        except Refused:
            made.outcome = FAILED  # the first answer of all
            return False
        except Unanswered:
            try:
                told = await self._ask_coordinator(request)
            except (Unanswered, Refused):
                return False  # an earlier request may have been carried out
            made.outcome = OK
            # Without an epoch for each transaction an earlier request could end the next one.
            if not self._raises_epoch:
                return False
        made.outcome = OK
        if self._raises_epoch:
            identity.producer_id, identity.epoch = told.producer_id, told.producer_epoch
            identity.sequences.clear()
        return True
