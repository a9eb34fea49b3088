"""One subscription that has consumers: its machine, what feeds it, what it tells.

Here: the shell around the state machine. It reads batches where the machine wants them, has the
door cut them into runs, and hands deliveries to the door. It waits for news of the partition only
while some consumer takes messages.
Next door: the rules (subscriptions/machine.py), reading (partitions/subscriptions.py), saving
(cursors.py), a consumer's verbs (attached.py), all subscriptions (subscriptions.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.partitions.reads import PartitionRead
from kafscale.engine.partitions.subscriptions import Subscription
from kafscale.engine.partitions.visibility import READ_COMMITTED, IsolationLevel
from kafscale.engine.subscriptions.cursors import Cursor, CursorEvents, Cursors
from kafscale.engine.subscriptions.ports import Framing, Receiver, SubscriptionName
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    KafscaleError,
    NotTheOwner,
    OffsetOutOfRange,
    TopicError,
)
from kafscale.records import batch
from kafscale.subscriptions.events import (
    Ack,
    AcknowledgeSpans,
    Activity,
    ConsumerId,
    Deliver,
    Disconnect,
    End,
    Found,
    LogStart,
    LookUp,
    MessageRun,
    Mode,
    OffsetSpan,
    Refuse,
    Save,
    Seek,
    SubscriptionEffect,
    SubscriptionEvent,
    TimePassed,
    WakeUpAt,
)
from kafscale.subscriptions.machine import SubscriptionMachine
from kafscale.subscriptions.snapshot import CursorSnapshot
from kafscale.subscriptions.spans import clear_bits
from kafscale.tasks import Tasks
from kafscale.turns import Turns

logger = structlog.get_logger()

READ_BYTES: Final = 256 << 10  # at a time; a batch that is larger is read whole
_PAUSE_S: Final = 0.5  # after the store failed, or if the machine makes no progress
_SHORTEST_TIMER_S: Final = 0.01
MOST_REREADS: Final = 100  # without anything new


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every subscription of an engine uses."""

    partitions: Partitions
    cursors: Cursors
    clock: Clock
    tasks: Tasks
    turns: Turns


class Rereads:
    """Counts reads that bring nothing new, one after the other.

    A machine that asks for them without end has a fault, and must not keep the broker busy.
    """

    __slots__ = ("_count", "_highest")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Something was delivered or acknowledged."""
        self._highest = -1
        self._count = 0

    def add(self, at: int) -> None:
        """The log was read at this offset."""
        if at > self._highest:
            self._highest = at
            self._count = 0
        else:
            self._count += 1

    @property
    def are_too_many(self) -> bool:
        """Whether the machine makes no progress."""
        return self._count >= MOST_REREADS


class Serving(CursorEvents):
    """A subscription in memory."""

    __slots__ = (
        "_around",
        "_found",
        "_framing",
        "_is_running",
        "_isolation",
        "_on_idle",
        "_port",
        "_receivers",
        "_rereads",
        "_timer",
        "cursor",
        "is_over",
        "machine",
        "name",
    )

    def __init__(
        self,
        name: SubscriptionName,
        around: Surroundings,
        machine: SubscriptionMachine,
        cursor: Cursor | None,
        framing: Framing,
        on_idle: Callable[["Serving"], None],
        isolation: IsolationLevel = READ_COMMITTED,
    ) -> None:
        """`cursor`: None if it ends with its last consumer. `on_idle`: no consumer is left."""
        self.name = name
        self.machine = machine
        self.cursor = cursor
        self.is_over = False
        self._around = around
        self._framing = framing
        self._isolation = isolation
        self._on_idle = on_idle
        self._receivers: dict[ConsumerId, Receiver] = {}
        self._port: Subscription | None = None
        self._found: Found | None = None  # what was read last and not delivered whole
        self._rereads = Rereads()
        self._is_running = False
        self._timer: asyncio.TimerHandle | None = None
        if cursor is not None:
            cursor.events = self

    # -- events and effects ------------------------------------------------------------------

    def add_receiver(self, consumer: ConsumerId, receiver: Receiver, framing: Framing) -> None:
        """The door's end of a consumer that is about to attach."""
        self._receivers[consumer] = receiver
        self._framing = framing

    def drop_receiver(self, consumer: ConsumerId) -> None:
        """The consumer is gone: it hears nothing any more."""
        self._receivers.pop(consumer, None)
        if not self._receivers:
            self._rest()
            self._on_idle(self)

    def has(self, consumer: ConsumerId) -> bool:
        """Whether this consumer is attached."""
        return consumer in self._receivers

    def handle(self, event: SubscriptionEvent) -> list[LookUp]:
        """Let the machine handle an event now; gives what has to be looked up for it.

        Raises what the machine refuses the event with.
        """
        look_ups: list[LookUp] = []
        problem: KafscaleError | None = None
        for effect in self.machine.handle(event, self._around.clock.now_ms()):
            if isinstance(effect, LookUp):
                look_ups.append(effect)
            elif isinstance(effect, Refuse):
                problem = effect.problem
            else:
                self._carry_out(effect)
        if problem is not None:
            raise problem
        self._go_on()
        return look_ups

    def _carry_out(self, effect: SubscriptionEffect) -> None:
        if isinstance(effect, Deliver | Save):
            self._rereads.clear()
        if isinstance(effect, Deliver):
            if (receiver := self._receivers.get(effect.consumer)) is not None:
                receiver.deliver(effect.deliveries, effect.epoch)
        elif isinstance(effect, Save):
            if self.cursor is not None:
                self._around.cursors.save_soon(self.cursor)
        elif isinstance(effect, WakeUpAt):
            self._wake_at(effect.at_ms)
        elif isinstance(effect, Activity):
            if (receiver := self._receivers.get(effect.consumer)) is not None:
                receiver.activity(effect.is_active)
        elif isinstance(effect, Disconnect):
            receiver = self._receivers.get(effect.consumer)
            self.drop_receiver(effect.consumer)
            if receiver is not None:
                receiver.disconnected(effect.problem)

    def end(self, problem: KafscaleError) -> None:
        """Serve nothing any more; all consumers are told why."""
        if not self.is_over:
            self.is_over = True
            self.handle(End(problem))
            self._rest()
            self._on_idle(self)

    # -- for the cursor ----------------------------------------------------------------------

    def snapshot(self) -> CursorSnapshot:
        """What is to be saved."""
        return self.machine.snapshot()

    def moved(self, offset: int) -> None:
        """A tool has committed another offset: go on from there."""
        logger.info("subscription_reset", group=self.name.group_id, offset=offset)
        self.handle(Seek(offset))

    def lost(self, problem: KafscaleError) -> None:
        """The subscription is another broker's, or was deleted."""
        logger.info("subscription_lost", group=self.name.group_id, error=str(problem))
        self.end(problem)

    # -- reading -----------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Read if the machine wants something, unless that is being done."""
        if self._is_running or self.is_over:
            return
        if self.machine.next_read(self._around.clock.now_ms()) is not None:
            self._is_running = True
            self._around.tasks.spawn(self._run(), f"subscription {self.name.group_id}")

    async def _run(self) -> None:
        turns = self._around.turns
        try:
            end_s = turns.piece_end_s()
            while not self.is_over:
                at = self.machine.next_read(self._around.clock.now_ms())
                if at is None:
                    return
                if self._rereads.are_too_many:
                    await self._pause(at)
                    continue
                found = await self._find(at)
                if found is None:
                    return
                self._rereads.add(at)
                for effect in self.machine.handle(found, self._around.clock.now_ms()):
                    self._carry_out(effect)
                if turns.is_over(end_s):
                    await turns.next()
                    end_s = turns.piece_end_s()
        finally:
            self._is_running = False

    async def _pause(self, at: int) -> None:
        """Let time pass: only an event, or a later time, can help a machine that is stuck."""
        logger.error("subscription_makes_no_progress", group=self.name.group_id, at=at)
        self._rereads.clear()
        await asyncio.sleep(_PAUSE_S)

    async def _find(self, at: int) -> Found | None:
        """What the log has at this offset; None if there is nothing yet: news will wake us."""
        if self._found is not None and self._found.at <= at < self._found.next:
            return self._found
        self._found = None
        position = self._position(at)
        if self._port is None:
            self._port = self._around.partitions.subscribe(position, self._go_on)
        self._port.seek(position)
        if self._port.watch():
            return None
        result = await self._port.read(READ_BYTES)
        if result.error is not None:
            self._failed(result.error, at, result.start, result.high)
            return None
        try:
            self._found = self._frame(at, result.batches)
        except KafscaleError as problem:
            logger.error("batch_not_framed", group=self.name.group_id, at=at, error=str(problem))
            self.end(problem)
            return None
        if self._found is None:  # the log has just been opened, or is being closed
            asyncio.get_running_loop().call_later(_SHORTEST_TIMER_S, self._go_on)
        return self._found

    def _position(self, at: int) -> PartitionRead:
        name = self.name
        return PartitionRead(name.topic, name.partition, at, READ_BYTES, isolation=self._isolation)

    def _frame(self, at: int, batches: Sequence[memoryview]) -> Found | None:
        """What batches have from this offset on; None if that is nothing."""
        by_key = self.machine.mode is Mode.KEY_SHARED
        runs: list[MessageRun] = []
        after = at
        for view in batches:
            for place, header in batch.walk(view):
                if not header.is_control:
                    stored = view[place : place + header.size]
                    runs += self._framing.frame(stored, header, by_key=by_key)
                after = header.next_offset
        return Found(at, after, runs) if after > at else None

    def _failed(self, problem: KafscaleError, at: int, start: int, high: int) -> None:
        if isinstance(problem, OffsetOutOfRange):
            if at < start:
                self._rereads.add(at)
                self._later(LogStart(start))
                return
            if at > high >= 0:  # a tool has committed an offset that is not there yet
                self._later(Seek(high))
                return
        if isinstance(problem, NotTheOwner | TopicError):
            self.end(problem)
        else:
            logger.warning("subscription_waits", group=self.name.group_id, error=str(problem))
            asyncio.get_running_loop().call_later(_PAUSE_S, self._go_on)

    def _later(self, event: SubscriptionEvent) -> None:
        asyncio.get_running_loop().call_soon(self.handle, event)

    # -- acknowledgements of entries that are not in flight ----------------------------------

    async def look_up(self, wanted: LookUp) -> None:
        """Read where entries end that were delivered long ago, or by another broker."""
        spans: list[OffsetSpan] = []
        known: Found | None = None
        for ack in wanted.acks:
            if ack.first < 0:
                continue
            if known is None or not known.at <= ack.first < known.next:
                known = await self._look(ack.first)
            if known is not None:
                spans += _spans_in(known, ack, is_cumulative=wanted.is_cumulative)
        if spans and not self.is_over:
            self.handle(AcknowledgeSpans(spans))

    async def _look(self, at: int) -> Found | None:
        read = self._position(at)
        (result,) = await self._around.partitions.fetch([read], READ_BYTES, 0, 0.0)
        if isinstance(result.error, OffsetOutOfRange):
            return None  # it is gone, or never was there
        if result.error is not None:
            raise result.error
        return self._frame(at, result.batches)

    # -- time --------------------------------------------------------------------------------

    def _wake_at(self, at_ms: int) -> None:
        """Have a timer for the next time that matters."""
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max((at_ms - self._around.clock.now_ms()) / 1000, _SHORTEST_TIMER_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if not self.is_over:
            self.handle(TimePassed())

    def _rest(self) -> None:
        """Hold nothing while there is no consumer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._port is not None:
            self._port.close()
            self._port = None
        self._found = None


def _spans_in(found: Found, ack: Ack, *, is_cumulative: bool) -> list[OffsetSpan]:
    """The messages that an acknowledgement is for."""
    for run in found.runs:
        if run.first <= ack.first < run.next:
            after = ack.first + 1 if run.is_split else run.next
            spans = [(ack.first, after)]
            if ack.unacknowledged and not run.is_split:
                spans = list(clear_bits(ack.first, after, ack.unacknowledged))
            return [(0, ack.first), *spans] if is_cumulative else spans
    return []
