"""One Pulsar connection: commands in, answers and messages out.

Here: the order of commands, and which function each one goes to. All producers and consumers of a
client share its connection. Commands begin in the order they came. One that waits (for a topic, for
a log) does not hold up those behind it: a client that wants an order waits for the answer.
No connection keeps the event loop for long: commands begin for as long as a piece of its time
lasts, then other connections have their turn.
Next door: the bytes of a connection (gateways/connection.py), what commands do (topics.py,
producing/commands.py, consuming/commands.py), connections to other brokers (relay.py).
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import structlog

from kafscale import __version__
from kafscale.gateways.connection import Connection
from kafscale.gateways.pulsar import schemas, topics
from kafscale.gateways.pulsar.channel import Channel
from kafscale.gateways.pulsar.consuming.commands import ConsumerCommands
from kafscale.gateways.pulsar.context import PulsarContext
from kafscale.gateways.pulsar.login import PulsarLogin, PulsarLoginRules
from kafscale.gateways.pulsar.producing.commands import ProducerCommands
from kafscale.gateways.pulsar.relay import Relay, UnknownBroker, broker_elsewhere
from kafscale.model.endpoints import Endpoint
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import read_frame
from kafscale.wire.pulsar.messages.commands import (
    NO_REQUEST,
    Ack,
    AuthResponse,
    CloseConsumer,
    CloseProducer,
    Command,
    Connect,
    Connected,
    ConsumerStats,
    Error,
    FeatureFlags,
    Flow,
    GetLastMessageId,
    GetOrCreateSchema,
    GetSchema,
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
_KEEP_ALIVE_S: Final = 30.0  # of silence, then PING; after as much again the client is gone
_QUEUED_BYTES: Final = 512  # what a command takes beside its bytes


class PulsarSession:
    """Implements gateways.connection.Session."""

    def __init__(
        self,
        connection: Connection,
        context: PulsarContext,
        rules: PulsarLoginRules | None = None,
        report: Callable[[str, str, str], None] | None = None,
    ) -> None:
        """Speak Pulsar on `connection`.

        `rules`: how clients prove who they are; None: they need not. `report`: see PulsarLogin.
        """
        self.writes = False
        self._connection = connection
        self._turns = context.engine.turns
        self._frames: deque[memoryview] = deque()
        self._channel = Channel(connection, context, self._begin_commands)
        self._producers = ProducerCommands(self._channel)
        self._consumers = ConsumerCommands(self._channel)
        self._login: PulsarLogin | None = None
        if rules is not None and report is not None:
            self._login = PulsarLogin(rules, context.engine.clock, self._channel, report)
        self._relay: Relay | None = None  # where all frames go, if the client wants another broker
        self._is_pinged = False
        self._has_heard = False  # from its client, since it last looked
        self._alive = asyncio.get_running_loop().call_later(_KEEP_ALIVE_S, self._look_alive)
        self._is_logging_in = False
        self._is_beginning = False
        self._is_in_line = False  # for another piece of the loop's time
        self._handlers: dict[type[Command], Callable[[Any, int], None]] = {
            Ping: self._ping,
            Pong: lambda command, held_bytes: self._connection.release(held_bytes),
            AuthResponse: self._auth_response,
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
        self._has_heard = True
        self._connection.hold(_QUEUED_BYTES)
        self._frames.append(frame)

    def begin(self) -> None:
        """Begin what can be begun."""
        self._begin_commands()

    def writable(self) -> None:
        """Go on after the client has read."""
        if self._relay is not None:
            self._relay.go_on()
        self._consumers.go_on()
        self._begin_commands()

    def closed(self) -> None:
        """End everything that the client had."""
        if not self._channel.is_closed:
            self._channel.is_closed = True
            self._alive.cancel()
            self._frames.clear()
            self._producers.end()
            self._consumers.end()
            if self._login is not None:
                self._login.end()
            if self._relay is not None:
                self._relay.close()

    def _look_alive(self) -> None:
        """Ask a client that is silent; end its connection if it does not answer.

        Its names and subscriptions would be taken for as long as the connection lasts.
        """
        connection = self._connection
        is_held_up = bool(connection.held_bytes or connection.partial_bytes)
        is_held_up |= connection.is_behind or connection.is_muted or connection.is_write_blocked
        if self._has_heard or is_held_up or not self._channel.is_connected:
            self._is_pinged = False
        elif self._is_pinged:
            connection.abort("idle")
            return
        else:
            self._is_pinged = True
            self._channel.send(Ping())
        self._has_heard = False
        self._alive = asyncio.get_running_loop().call_later(_KEEP_ALIVE_S, self._look_alive)

    def _begin_commands(self) -> None:
        if self._is_beginning:
            return
        self._is_beginning = True
        end_s = math.inf  # until the first one has begun
        try:
            while self._frames and self._channel.has_room and not self._is_logging_in:
                if self._is_in_line or (end_s < math.inf and self._turns.is_over(end_s)):
                    self._get_in_line()
                    break
                if end_s == math.inf:
                    end_s = self._turns.piece_end_s()
                if not self._take_plain():
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

    def _take_plain(self) -> bool:
        """Take messages at the front of the queue in one go, if they are usual ones."""
        if self._relay is not None or not self._channel.is_connected:
            return False
        if self._login is not None and self._login.refusal:
            return False
        if not self._producers.take_plain(self._frames, _QUEUED_BYTES):
            return False
        self.writes = True
        return True

    def _begin(self, frame: memoryview) -> None:
        held_bytes = len(frame) + _QUEUED_BYTES
        if self._relay is not None:
            self._relay.pass_on(frame, held_bytes)
            return
        command, rest = read_frame(frame)
        if not self._channel.is_connected:
            self._connect(command, frame, held_bytes)
        elif self._login is not None and self._login.refusal:
            self._login.refuse(command)
            self._connection.release(held_bytes)
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

    def _connect(self, command: Command, frame: memoryview, held_bytes: int) -> None:
        if not isinstance(command, Connect):
            raise MalformedMessage("the first command is not CONNECT")
        self._channel.greet(command)
        if self._login is None:
            self._let_in(command, frame)
            self._connection.release(held_bytes)
        else:
            self._is_logging_in = True
            self._channel.later(self._log_in(self._login, command, frame), "login", held_bytes)

    async def _log_in(self, login: PulsarLogin, command: Connect, frame: memoryview) -> None:
        is_let_in = await login.begin(command)
        self._is_logging_in = False
        if is_let_in:
            self._let_in(command, frame)
        elif self._channel.is_cpp:
            self._welcome(command)
        else:
            login.send_away()

    def _let_in(self, command: Connect, frame: memoryview) -> None:
        """Welcome a client, or lead it to the broker that it names."""
        context, wanted = self._channel.context, command.proxy_to_broker_url
        if wanted is None or not context.leads_on:
            self._welcome(command)
            return
        try:
            endpoint = broker_elsewhere(context.engine, self._connection.listener, wanted)
        except UnknownBroker as problem:
            # It has just left: the client looks up again.
            code = ServerError.SERVICE_NOT_READY
            self._channel.send(Error(request_id=NO_REQUEST, error=code, message=str(problem)))
            self._connection.finish()
            return
        if endpoint is None:
            self._welcome(command)
        else:
            self._lead_to(endpoint, frame)

    def _lead_to(self, endpoint: Endpoint, first: memoryview) -> None:
        """From now on the other broker asks for proofs and for signs of life."""
        self._alive.cancel()
        if self._login is not None:
            self._login.end()
        self._relay = Relay(self._connection)
        self._connection.hold(len(first))
        self._relay.pass_on(first, len(first))
        self._channel.context.tasks.spawn(self._relay.connect(endpoint), "pulsar relay")

    def _welcome(self, command: Connect) -> None:
        flags = FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
        answer = Connected(
            server_version=f"Kafscale-{__version__}",
            protocol_version=max(0, min(command.protocol_version, _NEWEST_PROTOCOL)),
            max_message_size=self._channel.context.max_message_size,
            feature_flags=flags,
        )
        self._channel.send(answer)

    def _auth_response(self, command: AuthResponse, held_bytes: int) -> None:
        if self._login is None:
            raise MalformedMessage("AuthResponse is not expected here")
        self._login.answer(command, held_bytes)

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
        async def answer() -> None:
            self._channel.send(await schemas.find(self._channel, command))

        self._channel.later(answer(), "schema", held_bytes)

    def _new_schema(self, command: GetOrCreateSchema, held_bytes: int) -> None:
        async def answer() -> None:
            self._channel.send(await schemas.add(self._channel, command))

        self._channel.later(answer(), "new schema", held_bytes)
