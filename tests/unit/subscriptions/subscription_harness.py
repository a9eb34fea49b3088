"""A subscription on a log that a test writes, and a record of what its consumers have."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafscale.subscriptions.events import (
    DEFAULT_RULES,
    Activity,
    Attach,
    ConsumerId,
    Deliver,
    Detach,
    Disconnect,
    Found,
    LogStart,
    LookUp,
    MessageRun,
    Mode,
    Permit,
    Redeliver,
    Refuse,
    Save,
    SubscriptionEffect,
    SubscriptionEvent,
    SubscriptionRules,
)
from kafscale.subscriptions.machine import SubscriptionMachine
from kafscale.subscriptions.snapshot import CursorSnapshot
from kafscale.subscriptions.spans import clear_bits

NOW_MS = 1_700_000_000_000


@dataclass
class Got:
    """What one consumer was given and has neither acknowledged nor handed back."""

    held: dict[int, int] = field(default_factory=dict)  # offset: redeliveries
    entries: dict[int, int] = field(default_factory=dict)  # delivered: first offset to next
    seen: list[int] = field(default_factory=list)  # every offset ever, in order
    is_active: bool | None = None
    was_disconnected: bool = False
    epoch: int = 0


class Subscribed:
    """The machine, the log, and the consumers."""

    def __init__(
        self, mode: Mode, rules: SubscriptionRules = DEFAULT_RULES, *, seat: int = 0, start: int = 0
    ) -> None:
        self.mode = mode
        self.rules = rules
        self.seat = seat
        self.now_ms = NOW_MS
        self.machine = SubscriptionMachine(CursorSnapshot(start), seat=seat, rules=rules)
        self.batches: list[tuple[int, int, Sequence[MessageRun]]] = []
        self.start = 0  # what lies before it is deleted
        self.got: dict[ConsumerId, Got] = {}
        self.saves = 0
        self.look_ups: list[LookUp] = []

    # -- the log -----------------------------------------------------------------------------

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else 0

    def write(
        self,
        count: int,
        *,
        is_split: bool = True,
        hashes: Sequence[int] = (),
        deliver_at_ms: int = 0,
        empty_after: int = 0,
    ) -> int:
        """Append a batch; gives its first offset. `empty_after`: offsets without a message."""
        first = self.end
        run = MessageRun(first, first + count, is_split, hashes, deliver_at_ms, f"batch {first}")
        self.batches.append((first, run.next + empty_after, [run]))
        self.pump()
        return first

    def pump(self) -> None:
        """Read for the machine as long as it wants to."""
        for _ in range(10_000):
            at = self.machine.next_read(self.now_ms)
            if at is None or at >= self.end:
                return
            if at < self.start:
                self._carry_out(self.machine.handle(LogStart(self.start), self.now_ms))
                continue
            runs: list[MessageRun] = []
            after = at
            for first, behind, of_batch in self.batches:
                if behind > at and len(runs) < 3:
                    assert first <= after or not runs
                    runs += of_batch
                    after = behind
            self._carry_out(self.machine.handle(Found(at, after, runs), self.now_ms))
        raise AssertionError("the machine reads without getting anywhere")

    # -- consumers ---------------------------------------------------------------------------

    def say(self, event: SubscriptionEvent) -> list[SubscriptionEffect]:
        effects = self.machine.handle(event, self.now_ms)
        self._carry_out(effects)
        self.pump()
        return effects

    def attach(self, consumer: ConsumerId, permits: int = 0, **fields: object) -> Refuse | None:
        self.got[consumer] = Got()
        known: dict[str, object] = {"name": f"c{consumer}", "mode": self.mode} | fields
        effects = self.say(Attach(consumer=consumer, **known))  # type: ignore[arg-type]
        refused = next((one for one in effects if isinstance(one, Refuse)), None)
        if refused is not None:
            del self.got[consumer]
        elif permits:
            self.say(Permit(consumer, permits))
        return refused

    def detach(self, consumer: ConsumerId) -> None:
        del self.got[consumer]
        if self.mode.is_ordered:
            self._forget()
        self.say(Detach(consumer))

    def redeliver(self, consumer: ConsumerId, offsets: Sequence[int] | None = None) -> None:
        got = self.got[consumer]
        named = got.held if offsets is None or self.mode.is_ordered else self._of(got, offsets)
        for offset in list(named):
            got.held.pop(offset, None)
        self.say(Redeliver(consumer, offsets))

    def _of(self, got: Got, offsets: Sequence[int]) -> list[int]:
        named: list[int] = []
        for offset in offsets:
            begin = max((first for first in got.entries if first <= offset), default=offset)
            named += range(begin, max(got.entries.get(begin, 0), offset + 1))
        return named

    def _forget(self) -> None:
        for got in self.got.values():
            got.held.clear()

    def _carry_out(self, effects: Sequence[SubscriptionEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                self._deliver(effect)
            elif isinstance(effect, Activity):
                self.got[effect.consumer].is_active = effect.is_active
                if effect.is_active:
                    self._forget()
            elif isinstance(effect, Disconnect):
                self.got.pop(effect.consumer).was_disconnected = True
            elif isinstance(effect, LookUp):
                self.look_ups.append(effect)
            self.saves += isinstance(effect, Save)

    def _deliver(self, effect: Deliver) -> None:
        got = self.got[effect.consumer]
        got.epoch = effect.epoch
        for delivery in effect.deliveries:
            offsets = range(delivery.first, delivery.next)
            for offset in offsets:
                self.delivered(effect.consumer, offset)
                got.held[offset] = delivery.redeliveries
                got.seen.append(offset)
                if delivery.is_split:
                    got.entries[offset] = offset + 1
            if not delivery.is_split:
                got.entries[delivery.first] = delivery.next

    def delivered(self, consumer: ConsumerId, offset: int) -> None:
        """One message is about to be with a consumer: for checks."""

    def key_of(self, offset: int) -> int:
        for first, behind, runs in self.batches:
            if first <= offset < behind and runs[0].hashes:
                hashes = runs[0].hashes
                return hashes[offset - first if runs[0].is_split else 0]
        return 0

    def spans_of(self, wanted: LookUp) -> list[tuple[int, int]]:
        """The messages of entries that the machine has forgotten."""
        spans: list[tuple[int, int]] = []
        for ack in wanted.acks:
            for run in (run for *_, runs in self.batches for run in runs):
                if run.first <= ack.first < run.next:
                    after = ack.first + 1 if run.is_split else run.next
                    spans += clear_bits(ack.first, after, ack.unacknowledged)
                    if wanted.is_cumulative:
                        spans.append((0, ack.first))
        return spans

    def has(self, offset: int) -> bool:
        """Whether the log has a message there."""
        return any(run.first <= offset < run.next for *_, runs in self.batches for run in runs)

    def is_done(self, offset: int) -> bool:
        return not any(self.machine.unacknowledged(offset, offset + 1))
