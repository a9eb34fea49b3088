"""One Pulsar connection: commands in, answers and messages out.

Here: the order of commands, and which function each one goes to. All producers and consumers of a
client share its connection. Commands begin in the order they came. One that waits (for a topic, for
a log) does not hold up those behind it: a client that wants an order waits for the answer.
No connection keeps the event loop for long: commands begin for as long as a piece of its time
lasts, then other connections have their turn.
Next door: the bytes of a connection (gateways/connection.py), finding topics (topics.py), producers
(producers.py).
"""

import math
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from kafscale import __version__
from kafscale.gateways.connection import Connection
from kafscale.gateways.pulsar import topics
from kafscale.gateways.pulsar.context import PulsarContext, Refused
from kafscale.gateways.pulsar.producer_names import (
    AccessMode,
    HeldByAnother,
    NameTaken,
    NotAlone,
)
from kafscale.gateways.pulsar.producers import PulsarProducer
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.model.errors import KafscaleError
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import read_frame, write_command
from kafscale.wire.pulsar.messages.commands import (
    CloseProducer,
    Command,
    Connect,
    Connected,
    Error,
    FeatureFlags,
    GetTopicsOfNamespace,
    Lookup,
    PartitionedMetadata,
    Ping,
    Pong,
    Producer,
    ProducerSuccess,
    Send,
    Success,
)

logger = structlog.get_logger()

_NEWEST_PROTOCOL: Final = 21
_CPP: Final = "Pulsar-CPP"  # the client below Python's, Node's and others
_QUEUED_BYTES: Final = 512  # what a command takes beside its bytes
_MOST_UNDER_WAY: Final = 1000  # commands that wait for something
_MOST_PRODUCERS: Final = 10_000
_MOST_NAME: Final = 1024  # characters of a producer's name


class PulsarSession:
    """Implements gateways.connection.Session."""

    def __init__(self, connection: Connection, context: PulsarContext) -> None:
        """Speak Pulsar on `connection`."""
        self.writes = False
        self._connection = connection
        self._context = context
        self._frames: deque[memoryview] = deque()
        self._client_version: str | None = None  # None: it has not said CONNECT yet
        self._producers: dict[int, PulsarProducer] = {}
        self._highest_producer = -1  # late messages of ids that were used are dropped
        self._creating: set[int] = set()
        self._with_runs: dict[PulsarProducer, None] = {}
        self._under_way = 0
        self._is_beginning = False
        self._is_in_line = False
        self._is_closed = False
        self._handlers: dict[type[Command], Callable[[Any, int], None]] = {
            Ping: self._ping,
            PartitionedMetadata: self._partitioned_metadata,
            Lookup: self._lookup,
            GetTopicsOfNamespace: self._topics_of_namespace,
            Producer: self._producer,
            CloseProducer: self._close_producer,
        }

    # -- frames ------------------------------------------------------------------------------

    def receive(self, frame: memoryview) -> None:
        """Queue a frame."""
        self._connection.hold(_QUEUED_BYTES)
        self._frames.append(frame)

    def begin(self) -> None:
        """Begin what can be begun."""
        self._begin_commands()

    def writable(self) -> None:
        """Go on after the client has read."""
        self._begin_commands()

    def closed(self) -> None:
        """End everything that the client had."""
        if self._is_closed:
            return
        self._is_closed = True
        self._frames.clear()
        for producer in list(self._producers.values()):
            producer.flush()  # its messages were received whole
            producer.end()

    def _begin_commands(self) -> None:
        if self._is_beginning:
            return
        self._is_beginning = True
        turns = self._context.engine.turns
        end_s = math.inf
        try:
            while (
                self._frames
                and not self._connection.is_write_blocked
                and self._under_way < _MOST_UNDER_WAY
            ):
                if self._is_in_line or (end_s < math.inf and turns.is_over(end_s)):
                    self._get_in_line()
                    break
                if end_s == math.inf:
                    end_s = turns.piece_end_s()
                self._begin(self._frames.popleft())
            for producer in self._with_runs:
                producer.flush()
            self._with_runs.clear()
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
            self._context.engine.turns.soon(self._have_turn)

    def _have_turn(self) -> None:
        self._is_in_line = False
        self._begin_commands()
        if not self._is_in_line:
            self._connection.catch_up()

    def _begin(self, frame: memoryview) -> None:
        command, rest = read_frame(frame)
        held_bytes = len(frame) + _QUEUED_BYTES
        if self._client_version is None:
            if not isinstance(command, Connect):
                raise MalformedMessage("the first command is not CONNECT")
            self._connect(command)
            self._connection.release(held_bytes)
        elif isinstance(command, Send):
            self._take(command, rest, held_bytes)
        else:
            handler = self._handlers.get(type(command))
            if handler is None:
                raise MalformedMessage(f"{type(command).__name__} is no command of a client")
            handler(command, held_bytes)

    def _give_up(self, reason: str, detail: str = "") -> None:
        self._frames.clear()
        self._connection.abort(reason, detail)

    # -- answers -----------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        self._connection.send((data,))

    def _answer(self, command: Command, held_bytes: int) -> None:
        self._send(write_command(command))
        self._connection.release(held_bytes)

    def _fail(self, request_id: int, code: ServerError, words: str) -> None:
        self._send(write_command(Error(request_id=request_id, error=code, message=words)))

    def _later(self, work: Coroutine[Any, Any, None], name: str, held_bytes: int) -> None:
        """Do what waits, beside the commands behind it."""
        self._under_way += 1

        async def run() -> None:
            try:
                await work
            except Exception:
                logger.exception("command_failed", command=name)
                self._give_up("internal_error")
            finally:
                self._under_way -= 1
                self._connection.release(held_bytes)
                self._begin_commands()

        self._context.tasks.spawn(run(), name)

    # -- commands ----------------------------------------------------------------------------

    def _connect(self, command: Connect) -> None:
        self._client_version = command.client_version
        version = max(0, min(command.protocol_version, _NEWEST_PROTOCOL))
        flags = FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
        answer = Connected(
            server_version=f"Kafscale-{__version__}",
            protocol_version=version,
            max_message_size=self._context.max_message_size,
            feature_flags=flags,
        )
        self._send(write_command(answer))

    def _ping(self, command: Ping, held_bytes: int) -> None:
        self._answer(Pong(), held_bytes)

    def _partitioned_metadata(self, command: PartitionedMetadata, held_bytes: int) -> None:
        async def answer() -> None:
            found = await topics.partitioned_metadata(self._context, self._connection, command)
            self._send(write_command(found))

        self._later(answer(), "partitioned metadata", held_bytes)

    def _lookup(self, command: Lookup, held_bytes: int) -> None:
        async def answer() -> None:
            found = await topics.lookup(self._context, self._connection, command)
            self._send(write_command(found))

        self._later(answer(), "lookup", held_bytes)

    def _topics_of_namespace(self, command: GetTopicsOfNamespace, held_bytes: int) -> None:
        found = topics.topics_of_namespace(self._context, self._connection, command)
        self._answer(found, held_bytes)

    # -- producers ---------------------------------------------------------------------------

    def _producer(self, command: Producer, held_bytes: int) -> None:
        self.writes = True
        known = self._producers.get(command.producer_id)
        if known is not None:
            self._answer(_ready(command, known), held_bytes)
        elif command.producer_id in self._creating or len(self._producers) >= _MOST_PRODUCERS:
            self._fail(
                command.request_id, ServerError.SERVICE_NOT_READY, "the producer is being created"
            )
            self._connection.release(held_bytes)
        else:
            self._creating.add(command.producer_id)
            self._later(self._create_producer(command), "producer", held_bytes)

    async def _create_producer(self, command: Producer) -> None:
        try:
            producer = await self._new_producer(command)
            if self._is_closed:
                return
            self._enter(command, producer)
        except (KafscaleError, Refused) as problem:
            self._fail(command.request_id, topics.error_of(problem), str(problem))
        finally:
            self._creating.discard(command.producer_id)

    async def _new_producer(self, command: Producer) -> PulsarProducer:
        context = self._context
        if command.txn_enabled:
            raise Refused(ServerError.NOT_ALLOWED, "transactions are not supported")
        place = await topics.find_place(context, command.topic, may_create=True)
        context.require(
            self._connection, AccessOperation.WRITE, ResourceType.TOPIC, place.topic.name
        )
        await context.engine.partitions.open(place.topic, place.partition)
        producer = PulsarProducer(
            context,
            command.producer_id,
            place.topic,
            place.partition,
            is_cpp=(self._client_version or "").startswith(_CPP),
            send=self._send,
            release=self._connection.release,
            gone=self._producer_gone,
        )
        producer.epoch = command.epoch or 0
        producer.is_generated = not (command.producer_name and command.user_provided_producer_name)
        identity = context.engine.identity
        producer.name = command.producer_name or context.names.fresh(
            f"{identity.cluster_id}-{identity.broker_id}-{identity.epoch}"
        )
        if len(producer.name) > _MOST_NAME:
            raise Refused(ServerError.NOT_ALLOWED, f"a name of {len(producer.name)} characters")
        try:
            producer.access_mode = AccessMode(command.producer_access_mode)
        except ValueError:
            raise Refused(
                ServerError.NOT_ALLOWED, f"access mode {command.producer_access_mode}"
            ) from None
        return producer

    def _enter(self, command: Producer, producer: PulsarProducer) -> None:
        """Let a producer write, or wait for its turn. Raises Refused."""
        partition = (producer.topic.topic_id, producer.partition)

        def tell_ready() -> None:
            self._send(write_command(_ready(command, producer)))

        try:
            is_ready = self._context.names.enter(partition, producer, tell_ready)
        except NameTaken:
            raise Refused(
                ServerError.PRODUCER_BUSY, f"there is a producer {producer.name!r}"
            ) from None
        except HeldByAnother:
            raise Refused(
                ServerError.PRODUCER_BUSY, "another producer has the topic for itself"
            ) from None
        except NotAlone:
            raise Refused(ServerError.PRODUCER_FENCED, "there are other producers") from None
        self._producers[command.producer_id] = producer
        self._highest_producer = max(self._highest_producer, command.producer_id)
        answer = _ready(command, producer)
        answer.producer_ready = is_ready
        self._send(write_command(answer))

    def _producer_gone(self, producer: PulsarProducer) -> None:
        if self._producers.get(producer.producer_id) is producer:
            del self._producers[producer.producer_id]

    def _take(self, command: Send, rest: memoryview, held_bytes: int) -> None:
        producer = self._producers.get(command.producer_id)
        if producer is not None:
            producer.take(command, rest, held_bytes)
            self._with_runs[producer] = None
        elif command.producer_id <= self._highest_producer:
            self._connection.release(held_bytes)  # sent before the client heard of its end
        else:
            raise MalformedMessage(f"there is no producer {command.producer_id}")

    def _close_producer(self, command: CloseProducer, held_bytes: int) -> None:
        def done() -> None:
            self._answer(Success(request_id=command.request_id), held_bytes)

        producer = self._producers.get(command.producer_id)
        if producer is None:
            done()
        else:
            producer.close(done)


def _ready(command: Producer, producer: PulsarProducer) -> ProducerSuccess:
    return ProducerSuccess(
        request_id=command.request_id,
        producer_name=producer.name,
        last_sequence_id=-1,
        schema_version=b"",
        producer_ready=True,
    )
