"""Batches of a transaction in a Produce request: which of them may be appended.

Next door: who answers (apis/produce.py), the rule (engine/transactions/gate.py).
"""

from typing import Final

from kafscale.engine.transactions.gate import TransactionalBatch
from kafscale.gateways.kafka.calls.call import Call, Place
from kafscale.model.errors import KafscaleError
from kafscale.records.batch import read_header
from kafscale.records.validation import is_transactional
from kafscale.transactions.machine import Producer

ABORTABLE_FROM: Final = 11  # version of Produce in which clients know TRANSACTION_ABORTABLE
REGISTERS_FROM: Final = 12  # version of Produce that registers partitions


async def admit(call: Call) -> dict[Place, KafscaleError]:
    """Ask for all batches of a request; gives the errors of those that may not be appended."""
    engine = call.engine
    sets: list[Place] = []
    batches: list[TransactionalBatch] = []
    async for number, topic_data in call.each(enumerate(call.message.topic_data)):
        topic = engine.topics.find(topic_data.name)
        for at, data in enumerate(topic_data.partition_data):
            if topic is not None and is_transactional(data.records):
                header = read_header(data.records)
                producer = Producer(header.producer_id, header.producer_epoch)
                sets.append((number, at))
                batches.append(TransactionalBatch(topic, data.index, producer))
    problems = await engine.transactions.admit(
        call.message.transactional_id,
        batches,
        registers=call.version >= REGISTERS_FROM,
        is_abortable=call.version >= ABORTABLE_FROM,
    )
    return {sets[number]: problem for number, problem in problems.items()}


def require_admitted(call: Call, place: Place) -> None:
    """Raise the error of a batch that may not be appended."""
    problem = (call.refused or {}).get(place)
    if problem is not None:
        # Raising the error itself would make a reference cycle with this frame.
        raise type(problem)(str(problem))
