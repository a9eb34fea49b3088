"""One Pulsar connection: commands in, answers and messages out.

Here: the order of commands, and which function each one goes to. All producers and consumers of a
client share its connection. Commands begin in the order they came. One that waits (for a topic, for
a log) does not hold up those behind it: a client that wants an order waits for the answer.
No connection keeps the event loop for long: commands begin for as long as a piece of its time
lasts, then other connections have their turn.
Next door: the bytes of a connection (gateways/connection.py), what commands do (topics.py,
producer_commands.py, consumer_commands.py).
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import structlog

from kafscale import __version__
from kafscale.gateways.connection import Connection
from kafscale.gateways.pulsar import topics
from kafscale.gateways.pulsar.channel import Channel
from kafscale.gateways.pulsar.consumer_commands import ConsumerCommands
from kafscale.gateways.pulsar.context import PulsarContext
from kafscale.gateways.pulsar.producer_commands import ProducerCommands
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import read_frame
from kafscale.wire.pulsar.messages.commands import (
    Ack,
    CloseConsumer,
    CloseProducer,
    Command,
    Connect,
    Connected,
    ConsumerStats,
    FeatureFlags,
    Flow,
    GetLastMessageId,
    GetOrCreateSchema,
    GetOrCreateSchemaResponse,
    GetSchema,
    GetSchemaResponse,
    GetTopicsOfNamespace,
    Lookup,
    PartitionedMetadata,
    Ping,
    Pong,
    Producer,
    RedeliverUnacknowledged,
    Seek,
    Send,
    Subscribe,
    Unsubscribe,
)

logger = structlog.get_logger()

_NEWEST_PROTOCOL: Final = 21
_QUEUED_BYTES: Final = 512  # what a command takes beside its bytes


class PulsarSession:
    """Implements gateways.connection.Session."""

    def __init__(self, connection: Connection, context: PulsarContext) -> None:
        """Speak Pulsar on `connection`."""
        self.writes = False
        self._connection = connection
        self._turns = context.engine.turns
        self._frames: deque[memoryview] = deque()
        self._channel = Channel(connection, context, self._begin_commands)
        self._producers = ProducerCommands(self._channel)
        self._consumers = ConsumerCommands(self._channel)
        self._is_beginning = False
        self._is_in_line = False  # for another piece of the loop's time
        self._handlers: dict[type[Command], Callable[[Any, int], None]] = {
            Ping: self._ping,
            PartitionedMetadata: self._partitioned_metadata,
            Lookup: self._lookup,
            GetTopicsOfNamespace: self._topics_of_namespace,
            GetSchema: self._schema,
            GetOrCreateSchema: self._new_schema,
            Producer: self._producers.create,
            CloseProducer: self._producers.close,
            Subscribe: self._consumers.subscribe,
            Flow: self._consumers.flow,
            Ack: self._consumers.acknowledge,
            RedeliverUnacknowledged: self._consumers.redeliver,
            Seek: self._consumers.seek,
            GetLastMessageId: self._consumers.last_message_id,
            ConsumerStats: self._consumers.stats,
            Unsubscribe: self._consumers.unsubscribe,
            CloseConsumer: self._consumers.close,
        }

    def receive(self, frame: memoryview) -> None:
        """Queue a frame."""
        self._connection.hold(_QUEUED_BYTES)
        self._frames.append(frame)

    def begin(self) -> None:
        """Begin what can be begun."""
        self._begin_commands()

    def writable(self) -> None:
        """Go on after the client has read."""
        self._consumers.go_on()
        self._begin_commands()

    def closed(self) -> None:
        """End everything that the client had."""
        if not self._channel.is_closed:
            self._channel.is_closed = True
            self._frames.clear()
            self._producers.end()
            self._consumers.end()

    def _begin_commands(self) -> None:
        if self._is_beginning:
            return
        self._is_beginning = True
        end_s = math.inf  # until the first one has begun
        try:
            while self._frames and self._channel.has_room:
                if self._is_in_line or (end_s < math.inf and self._turns.is_over(end_s)):
                    self._get_in_line()
                    break
                if end_s == math.inf:
                    end_s = self._turns.piece_end_s()
                self._begin(self._frames.popleft())
            self._producers.flush()
        except MalformedMessage as problem:
            self._give_up("malformed_command", str(problem))
        except Exception:
            logger.exception("command_failed")
            self._give_up("internal_error")
        finally:
            self._is_beginning = False

    def _get_in_line(self) -> None:
        """Go on in a later turn of the loop: other connections come first."""
        if not self._is_in_line:
            self._is_in_line = True
            self._connection.fall_behind()
            self._turns.soon(self._have_turn)

    def _have_turn(self) -> None:
        self._is_in_line = False
        self._begin_commands()
        if not self._is_in_line:
            self._connection.catch_up()

    def _begin(self, frame: memoryview) -> None:
        command, rest = read_frame(frame)
        held_bytes = len(frame) + _QUEUED_BYTES
        if not self._channel.is_connected:
            self._connect(command, held_bytes)
        elif isinstance(command, Send):
            self.writes = True
            self._producers.take(command, rest, held_bytes)
        else:
            handler = self._handlers.get(type(command))
            if handler is None:
                raise MalformedMessage(f"{type(command).__name__} is not expected here")
            handler(command, held_bytes)

    def _give_up(self, reason: str, detail: str = "") -> None:
        self._frames.clear()
        self._connection.abort(reason, detail)

    def _connect(self, command: Command, held_bytes: int) -> None:
        if not isinstance(command, Connect):
            raise MalformedMessage("the first command is not CONNECT")
        self._channel.greet(command)
        flags = FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
        answer = Connected(
            server_version=f"Kafscale-{__version__}",
            protocol_version=max(0, min(command.protocol_version, _NEWEST_PROTOCOL)),
            max_message_size=self._channel.context.max_message_size,
            feature_flags=flags,
        )
        self._channel.answer(answer, held_bytes)

    def _ping(self, command: Ping, held_bytes: int) -> None:
        self._channel.answer(Pong(), held_bytes)

    def _partitioned_metadata(self, command: PartitionedMetadata, held_bytes: int) -> None:
        async def answer() -> None:
            self._channel.send(await topics.partitioned_metadata(self._channel, command))

        self._channel.later(answer(), "partitioned metadata", held_bytes)

    def _lookup(self, command: Lookup, held_bytes: int) -> None:
        async def answer() -> None:
            self._channel.send(await topics.lookup(self._channel, command))

        self._channel.later(answer(), "lookup", held_bytes)

    def _topics_of_namespace(self, command: GetTopicsOfNamespace, held_bytes: int) -> None:
        self._channel.answer(topics.topics_of_namespace(self._channel, command), held_bytes)

    def _schema(self, command: GetSchema, held_bytes: int) -> None:
        answer = GetSchemaResponse(
            request_id=command.request_id,
            error_code=ServerError.TOPIC_NOT_FOUND,
            error_message="schemas are not kept",
        )
        self._channel.answer(answer, held_bytes)

    def _new_schema(self, command: GetOrCreateSchema, held_bytes: int) -> None:
        answer = GetOrCreateSchemaResponse(
            request_id=command.request_id,
            error_code=ServerError.NOT_ALLOWED,
            error_message="schemas are not kept",
        )
        self._channel.answer(answer, held_bytes)
