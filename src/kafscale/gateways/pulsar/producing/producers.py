"""One producer of a connection: messages into the log, receipts back in their order.

Here: which messages go into one record batch, what waits for its commit, and what a producer is
told when its messages cannot be stored. Messages that come unbatched, one after the other, are
stored together: each still has its own id. On topics that store no message twice, the log judges by
the producer's name and its sequence ids (decision 72).
Next door: messages as records (messages/entries_in.py), the connection (session.py), who may
write beside whom (producer_names.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafscale.access.quotas import QuotaKey
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.connection import Connection
from kafscale.gateways.pulsar.context import PulsarContext
from kafscale.gateways.pulsar.errors import FINAL, code_of
from kafscale.gateways.pulsar.messages import entries_in
from kafscale.gateways.pulsar.messages.entries_in import Sender, SentEntry
from kafscale.gateways.pulsar.messages.sends import receipts as receipts_of
from kafscale.gateways.pulsar.producer_names import AccessMode
from kafscale.gateways.pulsar.producing.plain_runs import MOST_IN_RUN, MOST_RUN_BYTES, PlainRun
from kafscale.log.writer.types import CommitOutcome
from kafscale.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidRequest,
    KafscaleError,
)
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.records import named
from kafscale.records.batch import MAX_SEQUENCE, read_header
from kafscale.records.compression import Codec
from kafscale.records.validation import check_times
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import (
    WrongChecksum,
    read_entry,
    read_frame,
    write_command,
    write_receipt,
)
from kafscale.wire.pulsar.messages.commands import (
    NO_REQUEST,
    CloseProducer,
    Command,
    MessageIdData,
    Send,
    SendError,
    SendReceipt,
)

_REFUSED: Final = "message_refused"


class _Waiting(NamedTuple):
    """Sends that are in the log and not committed yet."""

    sends: Sequence[Send] | range  # of a plain run: its sequence ids
    first: int | None  # the offset of the first; None: they were stored before
    committed: asyncio.Future[CommitOutcome] | None
    held_bytes: int

    @property
    def is_done(self) -> bool:
        return self.committed is None or self.committed.done()


class PulsarProducer:
    """Implements NamedProducer. Gone after `end`."""

    def __init__(
        self,
        context: PulsarContext,
        producer_id: int,
        topic: Topic,
        partition: int,
        *,
        is_cpp: bool,
        connection: Connection,
        gone: Callable[["PulsarProducer"], None],
    ) -> None:
        """`is_cpp`: the client understands only one code about a single message."""
        self.producer_id = producer_id
        self.topic = topic
        self.partition = partition
        self.name = ""
        self._number = 0  # stands for the name
        self.epoch = 0
        self.is_generated = False
        self.schema_version = b""
        self.access_mode = AccessMode.SHARED
        self.topic_epoch: int | None = None
        self.is_waiting = False  # until it has the partition for itself
        self._context = context
        self._is_cpp = is_cpp
        self._connection = connection
        self._release = connection.release
        self._gone = gone
        self._run: list[tuple[Send, SentEntry]] = []
        self._run_bytes = 0
        self._plain: PlainRun | None = None  # only one of both runs has messages
        self._waiting: deque[_Waiting] = deque()
        self._when_idle: Callable[[], None] | None = None
        self._is_gone = False

    def give_name(self, name: str) -> None:
        """Let it be known by this name."""
        self.name = name
        self._number = named.producer_of(name)

    async def last_sequence(self) -> int:
        """Up to which sequence id messages were stored under its name; -1: none is known."""
        if not self.topic.settings.deduplication:
            return -1
        partitions = self._context.engine.partitions
        return await partitions.last_sequence(self.topic, self.partition, self._number)

    # -- taking --------------------------------------------------------------------------------

    def take_plain(self, frames: deque[memoryview], sequence_id: int, extra_bytes: int) -> bool:
        """Take SENDs from the front, as far as they are usual messages one by one; False: none is.

        `sequence_id`: of the first. `extra_bytes`: what a frame is held for beside its size.
        """
        settings = self.topic.settings
        is_large = sequence_id > MAX_SEQUENCE - MOST_IN_RUN
        if self.is_waiting or settings.deduplication or settings.compacted or is_large:
            return False
        most_bytes = min(settings.max_message_bytes, MOST_RUN_BYTES)
        known = self._plain
        if known is not None and known.take(frames, self.producer_id, most_bytes, extra_bytes):
            return True
        self.flush()
        run = PlainRun(sequence_id)
        if self._is_gone or not run.take(frames, self.producer_id, most_bytes, extra_bytes):
            return False
        self._plain = run
        return True

    def take(self, send: Send, rest: memoryview, held_bytes: int) -> None:
        """Store what a SEND brings, now or with the next `flush`. Raises MalformedMessage."""
        if self.is_waiting:
            self._release(held_bytes)
            self.send_away()
            return
        try:
            metadata, payload = read_entry(rest)
            entry = self._open(send, metadata, payload)
        except WrongChecksum as problem:
            self._refuse(send, ServerError.CHECKSUM_ERROR, str(problem), held_bytes)
            return
        except KafscaleError as problem:
            self._refuse_finally(send, problem, held_bytes)
            return
        if self._plain or (self._run and not (entry.is_plain and self._fits(send, entry))):
            self.flush()
        if self._is_gone:
            self._release(held_bytes)
        elif entry.is_plain and (self._run or not self._is_stored(send.sequence_id)):
            self._run.append((send, entry))
            self._run_bytes += held_bytes
            if len(self._run) >= MOST_IN_RUN or self._run_bytes >= MOST_RUN_BYTES:
                self.flush()
        else:
            self._store([send], held_bytes, entry)

    def _open(self, send: Send, metadata: memoryview, payload: memoryview) -> SentEntry:
        if send.txnid_most_bits is not None or send.marker or send.message_id is not None:
            raise InvalidRequest("transactions and shadow topics are not supported")
        limit = self.topic.settings.max_message_bytes
        entry = entries_in.open_entry(metadata, payload, limit)
        if self.topic.settings.compacted and not entries_in.has_keys(entry):
            raise InvalidRecord("a compacted topic takes no message without a key")
        return entry

    def _fits(self, send: Send, entry: SentEntry) -> bool:
        last, before = self._run[-1]
        return send.sequence_id == last.sequence_id + 1 and entry.codec == before.codec

    def _is_stored(self, sequence_id: int) -> bool:
        """Whether the log has a message of this producer with this sequence id, or a later one."""
        return self.topic.settings.deduplication and sequence_id <= self._highest()

    def _highest(self) -> int:
        partitions = self._context.engine.partitions
        return partitions.highest_sequence(self.topic, self.partition, self._number)

    def _sender(self, sends: list[Send], first: SentEntry) -> Sender | None:
        """What the log judges by; None: it stores what comes."""
        if not self.topic.settings.deduplication or first.is_early_chunk:
            return None
        last = max(sends[-1].sequence_id, sends[-1].highest_sequence_id or 0)
        return Sender(self._number, last, self._highest())

    def flush(self) -> None:
        """Store the messages that wait to be stored together."""
        if self._run:
            run, self._run = self._run, []
            size, self._run_bytes = self._run_bytes, 0
            self._store([send for send, _ in run], size, *(entry for _, entry in run))
        elif self._plain is not None:
            plain, self._plain = self._plain, None
            count, held_bytes = len(plain.frames), plain.held_bytes

            def store_each(_: KafscaleError) -> None:
                self._store_frames(plain)

            self._append(plain.sequences, held_bytes, count, plain.batch, store_each)

    def _store(self, sends: list[Send], held_bytes: int, *entries: SentEntry) -> None:
        """Append one record batch. `sends`: one per entry."""

        def build(codec: Codec | None) -> bytearray:
            return entries_in.batch_of_all(entries, codec, self._sender(sends, entries[0]))

        def refuse(problem: KafscaleError) -> None:
            if len(sends) > 1:
                self._store_each(sends, held_bytes, entries)
            else:
                self._refuse_finally(sends[0], problem, held_bytes)

        messages = sum(entry.messages for entry in entries)
        self._append(sends, held_bytes, messages, build, refuse)

    def _append(
        self,
        sends: Sequence[Send] | range,
        held_bytes: int,
        messages: int,
        build: Callable[[Codec | None], bytearray],
        refuse: Callable[[KafscaleError], None],
    ) -> None:
        """Append one record batch of so many messages, which `build` makes by the topic's codec.

        `refuse`: what to do if it can never be stored.
        """
        if self._waiting and self._waiting[0].is_done:
            self._settle()  # what follows a message that was refused must not come before it
        if self._is_gone:
            self._release(held_bytes)
            return
        # A producer may last for days: what its client may do is asked each time.
        if self._context.is_denied(
            self._connection, AccessOperation.WRITE, ResourceType.TOPIC, self.topic.name
        ):
            self._release(held_bytes)
            self.send_away()
            return
        settings, engine = self.topic.settings, self._context.engine
        codec = None if settings.compression is None else Codec.named(settings.compression)
        try:
            batch = build(codec)
            if len(batch) > settings.max_message_bytes:
                raise BatchTooLarge(f"{len(batch)} bytes as a record batch")
            header = read_header(batch)
            check_times(header, engine.partitions.limits_of(self.topic), engine.clock.now_ms())
            stored = engine.partitions.append(
                self.topic, self.partition, memoryview(batch), acknowledged=False, is_checked=True
            )
        except FINAL as problem:
            refuse(problem)
            return
        except KafscaleError:
            self._release(held_bytes)
            self.send_away()
            return
        first: int | None = None
        if not stored.appended.is_duplicate:
            # Of a batch that was stored in part, the rest was: index and offset agree again.
            first = stored.first - (messages - header.last_offset_delta - 1)
        self._context.charge(self._connection, QuotaKey.PRODUCED_BYTES, len(batch))
        waiting = _Waiting(sends, first, stored.appended.committed, held_bytes)
        self._waiting.append(waiting)
        if waiting.committed is None:
            self._settle()
        else:
            waiting.committed.add_done_callback(lambda _: self._settle())

    def _store_each(
        self, sends: list[Send], held_bytes: int, entries: tuple[SentEntry, ...]
    ) -> None:
        """Together they cannot be stored, because of their size or of one of them."""
        for send, entry in zip(sends, entries, strict=True):
            if not self._is_gone:
                self._store([send], held_bytes, entry)
                held_bytes = 0

    def _store_frames(self, run: PlainRun) -> None:
        """Store the messages of a plain run one by one: together they cannot be stored."""
        held_bytes = run.held_bytes
        for frame in run.frames:
            send, rest = read_frame(frame)
            if not isinstance(send, Send):
                raise MalformedMessage("a run holds messages only")
            if not self._is_gone:
                self._store([send], held_bytes, self._open(send, *read_entry(rest)))
                held_bytes = 0

    # -- answering -----------------------------------------------------------------------------

    def _settle(self) -> None:
        """Send the receipts of what is committed, in order."""
        receipts: list[bytes] = []
        released = 0
        ledger = self.topic.descriptor.incarnation
        while self._waiting:
            waiting = self._waiting[0]
            committed = waiting.committed
            if not waiting.is_done:
                break
            self._waiting.popleft()
            released += waiting.held_bytes
            is_stored = committed is None or committed.result() is None
            self._context.engine.metrics.produced(self.topic.name, self.partition, is_stored)
            if not is_stored:
                self._answer(receipts, released)
                self.send_away()
                return
            receipts += self._receipts(waiting, ledger)
        self._answer(receipts, released)
        if not self._waiting and self._when_idle is not None:
            when_idle, self._when_idle = self._when_idle, None
            when_idle()

    def _receipts(self, waiting: _Waiting, ledger: int) -> list[bytes]:
        first, asked = waiting.first, waiting.sends
        if isinstance(asked, range):
            assert first is not None  # its topic stores what comes
            return [receipts_of(self.producer_id, asked.start, len(asked), ledger, first)]
        return [
            _receipt(send, ledger, None if first is None else first + number)
            for number, send in enumerate(asked)
        ]

    def _answer(self, receipts: list[bytes], released: int) -> None:
        if receipts:
            self._connection.send(receipts)
        if released:
            self._release(released)

    def _refuse_finally(self, send: Send, problem: KafscaleError, held_bytes: int) -> None:
        """A message that can never be stored fails alone; the producer goes on."""
        code = code_of(problem)
        if self._is_cpp or isinstance(problem, CorruptBatch):
            # After any other code this client sends the same message again, without end.
            code = ServerError.CHECKSUM_ERROR
        self._refuse(send, code, str(problem), held_bytes)

    def _refuse(self, send: Send, code: ServerError, words: str, held_bytes: int) -> None:
        self.flush()
        self._context.engine.metrics.bad_requests.labels(_REFUSED).inc()
        peer, log = self._connection.peer, self._context.client_log
        log.write("bad_request", peer, _REFUSED, topic=self.topic.name, detail=words)
        answer = SendError(
            producer_id=self.producer_id, sequence_id=send.sequence_id, error=code, message=words
        )
        self._when_settled(lambda: self._tell(answer))
        self._release(held_bytes)

    def _when_settled(self, act: Callable[[], None]) -> None:
        """Act when all that was sent before has its receipt."""
        if not self._waiting:
            act()
            return
        before = self._when_idle

        def both() -> None:
            if before is not None:
                before()
            act()

        self._when_idle = both

    # -- ending --------------------------------------------------------------------------------

    def close(self, when_done: Callable[[], None]) -> None:
        """The client ends the producer: what it has sent is stored and receipted first."""
        self.flush()

        def done() -> None:
            self.end()
            when_done()

        self._when_settled(done)

    def send_away(self) -> None:
        """Have the client look up the partition and send what has no receipt again."""
        self._tell(CloseProducer(producer_id=self.producer_id, request_id=NO_REQUEST))
        self.end()

    def fence(self) -> None:
        """Another producer has taken the partition, or the name."""
        self.send_away()

    def end(self) -> None:
        """Forget everything that waits; the log keeps what it was given."""
        if self._is_gone:
            return
        self._is_gone = True
        self._run.clear()
        released = self._run_bytes + sum(waiting.held_bytes for waiting in self._waiting)
        released += 0 if self._plain is None else self._plain.held_bytes
        self._run_bytes = 0
        self._plain = None
        self._waiting.clear()
        self._when_idle = None
        self._release(released)
        self._context.names.leave((self.topic.topic_id, self.partition), self)
        self._gone(self)

    def _tell(self, command: Command) -> None:
        self._connection.send((write_command(command),))


def _receipt(send: Send, ledger: int, offset: int | None) -> bytes:
    """`offset`: None for a message that was stored before. Its id is not known any more."""
    if offset is not None and not send.highest_sequence_id:
        return write_receipt(send.producer_id, send.sequence_id, ledger, offset)
    message_id = MessageIdData(ledger_id=-1, entry_id=-1)
    if offset is not None:
        message_id = MessageIdData(ledger_id=ledger, entry_id=offset)
    return write_command(
        SendReceipt(
            producer_id=send.producer_id,
            sequence_id=send.sequence_id,
            message_id=message_id,
            highest_sequence_id=send.highest_sequence_id or 0,
        )
    )
