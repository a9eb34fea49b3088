"""The commands of producers: PRODUCER, SEND, CLOSE_PRODUCER.

Here: the producers of one connection, by the numbers that its client gives them.
Next door: one producer (producers.py), its name (producer_names.py).
"""

from collections import deque
from typing import Final

from kafscale.gateways.pulsar import schemas, topics
from kafscale.gateways.pulsar.channel import MOST_NAME, Channel
from kafscale.gateways.pulsar.context import Refused
from kafscale.gateways.pulsar.messages import sends
from kafscale.gateways.pulsar.producer_names import (
    AccessMode,
    HeldByAnother,
    NameTaken,
    NotAlone,
)
from kafscale.gateways.pulsar.producing.producers import PulsarProducer
from kafscale.model.errors import KafscaleError
from kafscale.model.names import is_internal
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.messages.commands import (
    CloseProducer,
    Producer,
    ProducerSuccess,
    Send,
    Success,
)

_MOST_PRODUCERS: Final = 10_000
_SEND_HEAD_BYTES: Final = 40  # up to the end of the sequence id
_LARGEST_EPOCH: Final = 1 << 62


class ProducerCommands:
    """The producers of one connection."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._producers: dict[int, PulsarProducer] = {}
        self._highest = -1  # late messages of numbers that were used are dropped
        self._creating: set[int] = set()
        self._with_runs: dict[PulsarProducer, None] = {}

    def create(self, command: Producer, held_bytes: int) -> None:
        """PRODUCER: let a producer write."""
        channel, number = self._channel, command.producer_id
        known = self._producers.get(number)
        if known is not None:
            channel.later(self._tell_ready(command, known), "producer", held_bytes)
        elif number in self._creating or len(self._producers) >= _MOST_PRODUCERS:
            busy = Refused(ServerError.SERVICE_NOT_READY, "the producer cannot be created now")
            channel.fail(command.request_id, busy)
            channel.connection.release(held_bytes)
        else:
            self._creating.add(number)
            channel.later(self._create(command), "producer", held_bytes)

    async def _create(self, command: Producer) -> None:
        try:
            producer = await self._new_producer(command)
            if self._channel.is_closed:
                return
            if self._enter(command, producer):
                await self._tell_ready(command, producer)
            else:
                producer.is_waiting = True
                self._channel.send(_ready(command, producer, is_ready=False))
        except (KafscaleError, Refused) as problem:
            self._channel.fail(command.request_id, problem)
        finally:
            self._creating.discard(command.producer_id)

    async def _new_producer(self, command: Producer) -> PulsarProducer:
        channel, context = self._channel, self._channel.context
        if command.txn_enabled:
            raise Refused(ServerError.NOT_ALLOWED, "transactions are not supported")
        if len(command.producer_name or "") > MOST_NAME:
            raise Refused(ServerError.NOT_ALLOWED, f"names have up to {MOST_NAME} characters")
        if not 0 <= command.producer_access_mode < len(AccessMode):
            mode = command.producer_access_mode
            raise Refused(ServerError.NOT_ALLOWED, f"there is no access mode {mode}")
        if (command.topic_epoch or 0) > _LARGEST_EPOCH:
            raise Refused(ServerError.NOT_ALLOWED, f"a topic epoch of {command.topic_epoch}")
        place = await topics.find_place(context, command.topic, channel.require_create)
        channel.require(AccessOperation.WRITE, ResourceType.TOPIC, place.topic.name)
        if is_internal(place.topic.name):
            raise Refused(ServerError.NOT_ALLOWED, f"only brokers write to {place.topic.name}")
        await context.engine.partitions.open(place.topic, place.partition)
        producer = PulsarProducer(
            context,
            command.producer_id,
            place.topic,
            place.partition,
            is_cpp=channel.is_cpp,
            connection=channel.connection,
            gone=self._gone,
        )
        producer.epoch = command.epoch or 0
        producer.is_generated = not (command.producer_name and command.user_provided_producer_name)
        producer.access_mode = AccessMode(command.producer_access_mode)
        producer.topic_epoch = command.topic_epoch
        producer.give_name(command.producer_name or context.names.fresh(context.engine.identity))
        producer.schema_version = await schemas.version_for(context, place.topic, command.schema)
        return producer

    def _enter(self, command: Producer, producer: PulsarProducer) -> bool:
        """Let a producer write; False: it waits for its turn. Raises Refused."""
        partition = (producer.topic.topic_id, producer.partition)

        def tell_ready() -> None:
            self._channel.later(self._tell_ready(command, producer), "producer", 0)

        try:
            is_ready = self._channel.context.names.enter(partition, producer, tell_ready)
        except NameTaken:
            words = f"there is a producer {producer.name!r}"
            raise Refused(ServerError.PRODUCER_BUSY, words) from None
        except HeldByAnother:
            words = "another producer has the topic for itself"
            raise Refused(ServerError.PRODUCER_BUSY, words) from None
        except NotAlone:
            raise Refused(ServerError.PRODUCER_FENCED, "there are other producers") from None
        self._producers[command.producer_id] = producer
        self._highest = max(self._highest, command.producer_id)
        return is_ready

    async def _tell_ready(self, command: Producer, producer: PulsarProducer) -> None:
        """Tell a producer that it may write, and what its predecessor of this name has stored."""
        try:
            last = await producer.last_sequence()
        except KafscaleError as problem:
            producer.end()
            self._channel.fail(command.request_id, problem)
        else:
            producer.is_waiting = False
            if self._producers.get(producer.producer_id) is producer:
                self._channel.send(_ready(command, producer, is_ready=True, last_sequence_id=last))
            else:
                gone = Refused(ServerError.SERVICE_NOT_READY, "another producer has come since")
                self._channel.fail(command.request_id, gone)

    def _gone(self, producer: PulsarProducer) -> None:
        if self._producers.get(producer.producer_id) is producer:
            del self._producers[producer.producer_id]

    def take(self, command: Send, rest: memoryview, held_bytes: int) -> None:
        """SEND: store what it brings, now or with the next `flush`. Raises MalformedMessage."""
        producer = self._producers.get(command.producer_id)
        if producer is not None:
            producer.take(command, rest, held_bytes)
            self._with_runs[producer] = None
        elif command.producer_id <= self._highest:
            # Sent before the client heard that the producer has ended.
            self._channel.connection.release(held_bytes)
        else:
            raise MalformedMessage(f"there is no producer {command.producer_id}")

    def take_plain(self, frames: deque[memoryview], extra_bytes: int) -> bool:
        """SENDs at the front of a queue that are usual messages one by one; False: none is there.

        `extra_bytes`: what a frame is held for beside its size.
        """
        number, sequence_id = sends.sender_of(bytes(frames[0][:_SEND_HEAD_BYTES]))
        producer = self._producers.get(number)
        if producer is None or not producer.take_plain(frames, sequence_id, extra_bytes):
            return False
        self._with_runs[producer] = None
        return True

    def flush(self) -> None:
        """Store the messages that wait to be stored together."""
        for producer in self._with_runs:
            producer.flush()
        self._with_runs.clear()

    def close(self, command: CloseProducer, held_bytes: int) -> None:
        """CLOSE_PRODUCER: answer when all that it has sent is stored."""

        def done() -> None:
            self._channel.answer(Success(request_id=command.request_id), held_bytes)

        producer = self._producers.get(command.producer_id)
        if producer is None:
            done()
        else:
            producer.close(done)

    def end(self) -> None:
        """The client has gone."""
        for producer in list(self._producers.values()):
            producer.flush()  # its messages were received whole
            producer.end()


def _ready(
    command: Producer, producer: PulsarProducer, *, is_ready: bool, last_sequence_id: int = -1
) -> ProducerSuccess:
    return ProducerSuccess(
        request_id=command.request_id,
        producer_name=producer.name,
        last_sequence_id=last_sequence_id,
        schema_version=producer.schema_version,
        topic_epoch=producer.topic_epoch,
        producer_ready=is_ready,
    )
