"""The commands of consumers: SUBSCRIBE, FLOW, ACK, REDELIVER, SEEK, and what ends a consumer.

Here: the consumers of one connection, by the numbers that its client gives them. Commands that
change what is delivered again begin in their order: an entry that is acknowledged does not come
again because all others are handed back.
Next door: one consumer (consumers.py).
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from kafscale.gateways.pulsar import schemas, topics
from kafscale.gateways.pulsar.channel import MOST_NAME, Channel, error_of
from kafscale.gateways.pulsar.consuming.consumers import PulsarConsumer
from kafscale.gateways.pulsar.context import GROUP_PREFIX, Refused
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.messages.commands import (
    Ack,
    AckResponse,
    CloseConsumer,
    Command,
    ConsumerStats,
    ConsumerStatsResponse,
    Flow,
    GetLastMessageId,
    RedeliverUnacknowledged,
    Seek,
    Subscribe,
    Success,
    Unsubscribe,
)

_MOST_CONSUMERS: Final = 10_000


class ConsumerCommands:
    """The consumers of one connection."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._consumers: dict[int, PulsarConsumer] = {}
        self._attaching: set[int] = set()

    def subscribe(self, command: Subscribe, held_bytes: int) -> None:
        """SUBSCRIBE: a consumer joins a subscription; it gets nothing before its first FLOW."""
        channel, number = self._channel, command.consumer_id
        if number in self._consumers:
            channel.answer(Success(request_id=command.request_id), held_bytes)
        elif number in self._attaching or len(self._consumers) >= _MOST_CONSUMERS:
            busy = Refused(ServerError.SERVICE_NOT_READY, "the consumer cannot be created now")
            channel.fail(command.request_id, busy)
            channel.connection.release(held_bytes)
        else:
            self._attaching.add(number)
            channel.later(self._attach(command), "subscribe", held_bytes)

    async def _attach(self, command: Subscribe) -> None:
        try:
            consumer = await self._new_consumer(command)
            await consumer.attach(command)
            if self._channel.is_closed:
                await consumer.close()
            else:
                self._consumers[command.consumer_id] = consumer
                self._channel.send(Success(request_id=command.request_id))
        except (KafscaleError, Refused) as problem:
            self._channel.fail(command.request_id, problem)
        finally:
            self._attaching.discard(command.consumer_id)

    async def _new_consumer(self, command: Subscribe) -> PulsarConsumer:
        channel, context = self._channel, self._channel.context
        if max(len(command.subscription), len(command.consumer_name or "")) > MOST_NAME:
            raise Refused(ServerError.NOT_ALLOWED, f"names have up to {MOST_NAME} characters")
        require_create = channel.require_create if command.force_topic_creation else None
        place = await topics.find_place(context, command.topic, require_create)
        channel.require(AccessOperation.READ, ResourceType.TOPIC, place.topic.name)
        group_id = f"{GROUP_PREFIX}{command.subscription}"
        channel.require(AccessOperation.READ, ResourceType.GROUP, group_id)
        await context.engine.partitions.open(place.topic, place.partition)
        await schemas.begin_with(context, place.topic, command.schema)
        return PulsarConsumer(
            context,
            channel.connection,
            command,
            place,
            wants_index=channel.wants_index,
            gone=self._gone,
        )

    def _gone(self, consumer: PulsarConsumer) -> None:
        if self._consumers.get(consumer.consumer_id) is consumer:
            del self._consumers[consumer.consumer_id]

    def flow(self, command: Flow, held_bytes: int) -> None:
        """FLOW: a consumer takes more messages. One that is gone takes none."""
        consumer = self._consumers.get(command.consumer_id)
        if consumer is not None:
            consumer.permit(command.message_permits)
        self._channel.connection.release(held_bytes)

    def go_on(self) -> None:
        """The client reads again."""
        for consumer in list(self._consumers.values()):
            consumer.go_on()

    def acknowledge(self, command: Ack, held_bytes: int) -> None:
        """ACK: a consumer has done its work. It is answered where the client asks for that."""
        self._channel.later(self._acknowledge(command), "ack", held_bytes)

    async def _acknowledge(self, command: Ack) -> None:
        answer = AckResponse(consumer_id=command.consumer_id, request_id=command.request_id)
        consumer = self._consumers.get(command.consumer_id)
        try:
            if command.txnid_most_bits is not None:
                raise Refused(ServerError.NOT_ALLOWED, "transactions are not supported")
            if consumer is not None:
                await consumer.acknowledge(command)
        except (KafscaleError, Refused) as problem:
            answer.error, answer.message = error_of(problem), str(problem)
        if command.request_id is not None:
            self._channel.send(answer)

    def redeliver(self, command: RedeliverUnacknowledged, held_bytes: int) -> None:
        """REDELIVER: a consumer hands entries back, after what it acknowledged before."""

        async def redeliver() -> None:
            consumer = self._consumers.get(command.consumer_id)
            if consumer is not None:
                consumer.redeliver(command)

        self._channel.later(redeliver(), "redeliver", held_bytes)

    def seek(self, command: Seek, held_bytes: int) -> None:
        """SEEK: the subscription goes on elsewhere; its consumers subscribe again."""

        async def seek(consumer: PulsarConsumer) -> Command:
            await consumer.seek(command)
            return Success(request_id=command.request_id)

        self._ask(command, held_bytes, seek)

    def last_message_id(self, command: GetLastMessageId, held_bytes: int) -> None:
        """GET_LAST_MESSAGE_ID."""
        self._ask(command, held_bytes, lambda consumer: consumer.last_message_id(command))

    def unsubscribe(self, command: Unsubscribe, held_bytes: int) -> None:
        """UNSUBSCRIBE: the subscription ends, unless it has other consumers."""

        async def unsubscribe(consumer: PulsarConsumer) -> Command:
            await consumer.unsubscribe(force=bool(command.force))
            return Success(request_id=command.request_id)

        self._ask(command, held_bytes, unsubscribe)

    def _ask(
        self,
        command: Seek | GetLastMessageId | Unsubscribe,
        held_bytes: int,
        do: Callable[[PulsarConsumer], Coroutine[Any, Any, Command]],
    ) -> None:
        """Do what a consumer asks for, and answer with the outcome."""

        async def answer() -> None:
            consumer = self._consumers.get(command.consumer_id)
            try:
                if consumer is None:
                    words = f"there is no consumer {command.consumer_id}"
                    raise Refused(ServerError.CONSUMER_NOT_FOUND, words)
                self._channel.send(await do(consumer))
            except (KafscaleError, Refused) as problem:
                self._channel.fail(command.request_id, problem)

        self._channel.later(answer(), type(command).__name__, held_bytes)

    def close(self, command: CloseConsumer, held_bytes: int) -> None:
        """CLOSE_CONSUMER: what it has not acknowledged comes again."""

        async def close() -> None:
            consumer = self._consumers.get(command.consumer_id)
            try:
                if consumer is not None:
                    await consumer.close()
            except KafscaleError as problem:
                self._channel.fail(command.request_id, problem)
            else:
                self._channel.send(Success(request_id=command.request_id))

        self._channel.later(close(), "close consumer", held_bytes)

    def stats(self, command: ConsumerStats, held_bytes: int) -> None:
        """CONSUMER_STATS: only whether there is such a consumer."""
        answer = ConsumerStatsResponse(request_id=command.request_id)
        if command.consumer_id not in self._consumers:
            answer.error_code = ServerError.CONSUMER_NOT_FOUND
            answer.error_message = f"there is no consumer {command.consumer_id}"
        self._channel.answer(answer, held_bytes)

    def end(self) -> None:
        """The client has gone."""
        for consumer in list(self._consumers.values()):
            self._channel.context.tasks.spawn(consumer.close(), "consumer gone")
