"""Simulated producers: they number their batches and send them again until a broker answers.

In this room: what librdkafka and the Java client do with an answer, and with none.
Next door: connections (cluster.py), the words of a history (tests/faults/history.py).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kafscale.records.record import Record, build_batch
from kafscale.testing.simulated.clock import wall_ms
from kafscale.wire.kafka.errors import RETRIABLE, ErrorCode
from kafscale.wire.kafka.messages import init_producer_id, produce
from tests.faults.history import OK, History, Send, Trouble
from tests.simulation.cluster import Cluster, Unanswered, answered
from tests.simulation.places import Place

IN_FLIGHT = 5
TIMEOUT_MS = 5_000
# Earlier batches are missing, which is no error while the producer sends them again.
_MISSING = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


@dataclass(slots=True)
class Batch:
    sends: list[Send]
    data: bytes
    is_done: bool = False


class Producer:
    """One client; each partition has its own row of batches."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        *,
        idempotent: bool,
        strict: bool,
        wander_chance: float = 0.0,
    ) -> None:
        """`strict`: being told that acknowledged batches are missing is a broken promise."""
        self._cluster = cluster
        self._history = history
        self._wander_chance = wander_chance
        self._strict = strict
        self._idempotent = idempotent
        self._producer_id = -1
        if idempotent:
            history.idempotent.add(cluster.name)

    async def run(self, places: Sequence[Place], count: int, pause_s: float) -> None:
        """Send so many records to each place."""
        while self._idempotent and self._producer_id < 0:
            await self._introduce()
        # Not a TaskGroup: that one cancels in no particular order.
        await asyncio.gather(*(self._fill(place, count, pause_s) for place in places))

    async def _introduce(self) -> None:
        try:
            connection = await self._cluster.any()
            told = await connection.ask(
                init_producer_id.InitProducerIdRequest(transactional_id=None)
            )
        except Unanswered:
            self._cluster.hang_up()
            await self._back_off()
            return
        if told.error_code == 0:
            self._producer_id = told.producer_id
        else:
            await self._back_off()

    async def _fill(self, place: Place, count: int, pause_s: float) -> None:
        dice = self._cluster.dice
        waiting: list[Batch] = []
        number = 0
        in_flight = IN_FLIGHT if self._idempotent else 1
        while number < count or waiting:
            while len(waiting) < in_flight and number < count:
                size = min(dice.randint(1, 4), count - number)
                waiting.append(self._batch(place, number, size))
                number += size
            went_well = await self._send(place, waiting)
            waiting = [batch for batch in waiting if not batch.is_done]
            if went_well:
                if dice.random() < self._wander_chance:
                    self._cluster.wander(place)
                await asyncio.sleep(dice.random() * pause_s)
            else:
                self._cluster.forget(place)
                await self._back_off()

    def _batch(self, place: Place, first: int, size: int) -> Batch:
        now_s = asyncio.get_running_loop().time()
        sends = [Send(self._cluster.name, place.number, first + at, now_s) for at in range(size)]
        self._history.sends += sends
        records = [
            Record(at, wall_ms(now_s), None, one.value.encode()) for at, one in enumerate(sends)
        ]
        if not self._idempotent:
            return Batch(sends, build_batch(records, base_offset=0))
        return Batch(
            sends,
            build_batch(
                records,
                base_offset=0,
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=first,
            ),
        )

    async def _send(self, place: Place, batches: list[Batch]) -> bool:
        """Send all batches, one after the other, and note what became of them."""
        try:
            connection = await self._cluster.leader(place)
        except Unanswered:
            self._cluster.hang_up()
            return False
        answers = [connection.begin(produce_request(place, batch.data)) for batch in batches]
        went_well = True
        for at, (batch, answer) in enumerate(zip(batches, answers, strict=True)):
            try:
                told = await answered(answer)
            except Unanswered:
                connection.close()
                went_well = False
                continue
            row = told.responses[0].partition_responses[0]
            is_next = all(earlier.is_done for earlier in batches[:at])
            went_well = self._hear(batch, row, is_next) and went_well
        return went_well

    def _hear(self, batch: Batch, row: produce.PartitionProduceResponse, is_next: bool) -> bool:
        code = ErrorCode(row.error_code)
        now_s = asyncio.get_running_loop().time()
        if code is ErrorCode.NONE:
            batch.is_done = True
            for at, send in enumerate(batch.sends):
                send.ended_s, send.outcome, send.offset = now_s, OK, row.base_offset + at
            return True
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # the record is there, at an unknown offset
            batch.is_done = True
            return True
        missing = code in _MISSING
        if (missing and is_next and self._strict) or (not missing and code not in RETRIABLE):
            what = f"{batch.sends[0].value!r} was refused with {code.name}"
            self._history.troubles.append(Trouble(self._cluster.name, what, now_s))
            batch.is_done = not missing
        return False

    async def _back_off(self) -> None:
        await asyncio.sleep(0.1 + self._cluster.dice.random() * 0.3)


def produce_request(place: Place, data: bytes) -> produce.ProduceRequest:
    """One batch for one place."""
    row = produce.PartitionProduceData(index=place.partition, records=memoryview(data))
    topic = produce.TopicProduceData(name=place.topic, partition_data=[row])
    return produce.ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
