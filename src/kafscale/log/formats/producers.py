"""What a lane remembers of its producers: idempotent ones, and those that are known by name.

Here: the five-batch window, the verdict on a new batch, snapshots. Pure; time is an argument.
The sequence ids of a named producer grow, with gaps: what is not above the last one is a duplicate.
Next door: the log that asks before each append (writer/log.py), manifests, which carry snapshots
(manifest.py).

The table includes batches that wait for their commit: the next batch of the same producer must
follow them. After a re-opening it is built anew from what is in the bucket.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from kafscale.log.formats.transactions import NO_TURN, LastMarker, TransactionMarks
from kafscale.model.errors import (
    DuplicateSequence,
    InvalidTransactionState,
    OutOfOrderSequence,
    StaleProducerEpoch,
    TransactionPending,
    UnknownProducer,
)
from kafscale.records import named
from kafscale.records.batch import NAMED_BELOW, TRANSACTIONAL, BatchHeader

WINDOW: Final = 5
SEALER: Final = 1 << 62  # above every client's id: its one batch is the last of a lane
_MOST_NAMED: Final = 10_000  # producers known by name, in one lane
_SEQUENCES: Final = 1 << 31  # sequence numbers wrap from 2^31 - 1 to 0


class BatchMark(NamedTuple):
    """A batch in the window."""

    first_sequence: int
    last_sequence: int
    first_offset: int


class ProducerSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """One producer as a manifest stores it."""

    producer_id: int
    epoch: int
    last_ms: int
    marks: list[BatchMark]


@dataclass(slots=True)
class _Producer:
    epoch: int
    last_sequence: int
    last_ms: int
    marks: deque[BatchMark] = field(default_factory=deque)
    open_first: int | None = None  # offset at which its open transaction begins
    turn: int = NO_TURN  # of its last marker
    # Its state before the epoch above, until a batch of this epoch is committed.
    before: "_Producer | None" = None

    def first_offset_of(self, header: BatchHeader) -> int | None:
        """Where the same batch stands, if it is in the window."""
        for mark in self.marks:
            if mark[:2] == (header.base_sequence, header.last_sequence):
                return mark.first_offset
        return None

    def as_of(self, committed_to: int) -> "_Producer | None":
        """The youngest state that has a committed batch."""
        if self.marks and self.marks[0].first_offset < committed_to:
            return self
        return self.before


def _check_open(known: _Producer, header: BatchHeader) -> None:
    """Refuse what must not come between the batches of an open transaction."""
    if header.producer_epoch > known.epoch:
        # One marker would end both transactions.
        raise TransactionPending(
            f"the transaction of producer {header.producer_id} in epoch {known.epoch} has not ended"
        )
    if not header.attributes & TRANSACTIONAL:
        raise InvalidTransactionState(
            f"producer {header.producer_id} has an open transaction, and the batch is not in it"
        )


def _keep(marks: deque[BatchMark], mark: BatchMark, committed_to: int) -> None:
    marks.append(mark)
    while len(marks) > WINDOW and marks[WINDOW].first_offset < committed_to:
        marks.popleft()


def _after(sequence: int) -> int:
    return (sequence + 1) % _SEQUENCES


def _is_behind(sequence: int, last: int) -> bool:
    """Whether `sequence` is at or before `last` on the circle of sequence numbers."""
    return (last - sequence) % _SEQUENCES < _SEQUENCES // 2


class ProducerTable:
    """Producer id to its recent batches, for one lane."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._named: OrderedDict[int, _Producer] = OrderedDict()  # the longest silent first

    def __len__(self) -> int:
        """Count the producers remembered."""
        return len(self._producers) + len(self._named)

    @property
    def is_sealed(self) -> bool:
        """Whether the lane has had its last batch."""
        return SEALER in self._producers

    def judge(self, header: BatchHeader, accepts_unknown_sequences: bool = False) -> int | None:
        """Judge a batch of an idempotent producer: a duplicate, the next one, or an error.

        Gives the first offset of the same batch if it was appended before, None if the batch
        is new and follows the last one; raises BadSequence otherwise.
        `accepts_unknown_sequences`: a producer that is not known here may begin at any sequence.
        """
        if header.is_named:
            return self._judge_named(header)
        known = self._producers.get(header.producer_id)
        first = header.base_sequence
        if self.is_sealed:
            # Batches that are missing here may be where the topic has moved to. If the producer
            # were told that they are missing, it would begin anew, or give up.
            if known is None or known.epoch != header.producer_epoch:
                return None
            return known.first_offset_of(header)
        if known is None:
            if first != 0 and not accepts_unknown_sequences:
                raise UnknownProducer(
                    f"producer {header.producer_id} begins at sequence {first}, not at 0"
                )
            return None
        if header.producer_epoch < known.epoch:
            raise StaleProducerEpoch(
                f"producer {header.producer_id} has epoch {known.epoch}, "
                f"the batch {header.producer_epoch}"
            )
        if known.open_first is not None:
            _check_open(known, header)
        if header.producer_epoch > known.epoch:
            if first != 0:
                raise OutOfOrderSequence(f"a new epoch begins at sequence 0, not at {first}")
            return None
        earlier = known.first_offset_of(header)
        if earlier is not None:
            return earlier
        if first == _after(known.last_sequence):
            return None
        # If unknown producers may go on here, their earlier batches may never have been here.
        if not accepts_unknown_sequences and _is_behind(header.last_sequence, known.last_sequence):
            raise DuplicateSequence(f"sequence {first} was appended long ago")
        raise OutOfOrderSequence(
            f"producer {header.producer_id} should go on with sequence "
            f"{_after(known.last_sequence)}, the batch begins at {first}"
        )

    def remember(
        self, header: BatchHeader, first_offset: int, now_ms: int, committed_to: int
    ) -> None:
        """Note a batch that was appended at `first_offset`.

        Marks leave the window only when five committed ones follow: a snapshot, which holds
        committed batches alone, must know the producer even while five more are waiting.
        """
        if header.is_named:
            self._remember_named(header, first_offset, now_ms, committed_to)
            return
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            earlier = known.as_of(committed_to) if known else None
            turn = known.turn if known else NO_TURN
            known = _Producer(header.producer_epoch, -1, now_ms, turn=turn, before=earlier)
            self._producers[header.producer_id] = known
        elif known.before and known.marks and known.marks[0].first_offset < committed_to:
            known.before = None
        if known.open_first is None and header.attributes & TRANSACTIONAL:
            known.open_first = first_offset
        known.last_sequence = header.last_sequence
        known.last_ms = now_ms
        mark = BatchMark(header.base_sequence, header.last_sequence, first_offset)
        _keep(known.marks, mark, committed_to)

    # -- producers that are known by name ----------------------------------------------------

    def _judge_named(self, header: BatchHeader) -> int | None:
        """The first offset of the batch that came up to this one's last sequence id, if any."""
        known, last = self._named.get(named.producer(header)), named.last_sequence(header)
        if known is None or last > known.last_sequence:
            return None
        return next(mark.first_offset for mark in known.marks if last <= mark.last_sequence)

    def _remember_named(
        self, header: BatchHeader, first_offset: int, now_ms: int, committed_to: int
    ) -> None:
        who, last = named.producer(header), named.last_sequence(header)
        known = self._named.setdefault(who, _Producer(0, last, now_ms))
        self._named.move_to_end(who)
        known.last_sequence, known.last_ms = last, now_ms
        mark = BatchMark(named.first_sequence(header), last, first_offset)
        _keep(known.marks, mark, committed_to)
        if len(self._named) > _MOST_NAMED:
            self._named.popitem(last=False)

    def last_of_name(self, who: int) -> BatchMark | None:
        """The last batch of a producer that is known by name, committed or not."""
        known = self._named.get(who)
        return None if known is None else known.marks[-1]

    def forget_names(self) -> None:
        """Forget them all: sequence ids say nothing about what was stored without them."""
        self._named.clear()

    # -- transactions ----------------------------------------------------------------------

    @property
    def has_open(self) -> bool:
        """Whether any producer has an open transaction, committed batches or not."""
        return any(known.open_first is not None for known in self._producers.values())

    def open_transaction(self, producer_id: int) -> tuple[int, int] | None:
        """The epoch and the first offset of a producer's open transaction."""
        known = self._producers.get(producer_id)
        if known is None or known.open_first is None:
            return None
        return known.epoch, known.open_first

    def last_turn(self, producer_id: int) -> int:
        """The turn of a producer's last marker, committed or not."""
        known = self._producers.get(producer_id)
        return NO_TURN if known is None else known.turn

    def end(self, producer_id: int, epoch: int, turn: int, now_ms: int, committed_to: int) -> None:
        """Note a marker. A higher epoch begins with it, so that late batches are refused."""
        known = self._producers.get(producer_id)
        if known is None or known.epoch < epoch:
            earlier = known.as_of(committed_to) if known else None
            known = _Producer(epoch, -1, now_ms, before=earlier)
            self._producers[producer_id] = known
        known.open_first = None
        known.turn = max(known.turn, turn)
        known.last_ms = now_ms

    def restore_transactions(self, marks: TransactionMarks | None) -> None:
        """Set open transactions and last markers to what a manifest says, after `restore`."""
        if marks is None:
            return
        self.learn_markers(marks.markers)
        for opened in marks.open:
            known = self._producers.get(opened.producer_id)
            if known is None:
                known = _Producer(opened.epoch, -1, 0)
                self._producers[opened.producer_id] = known
            known.open_first = opened.first

    def learn_markers(self, markers: Iterable[LastMarker]) -> None:
        """Add the last markers of producers, where they are newer."""
        for marker in markers:
            if self.last_turn(marker.producer_id) < marker.turn:
                known = self._producers.get(marker.producer_id)
                opened = None if known is None else known.open_first
                self.end(marker.producer_id, marker.epoch, marker.turn, marker.at_ms, 0)
                self._producers[marker.producer_id].open_first = opened

    # -- sequences that are missing ----------------------------------------------------------

    def expect(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> None:
        """Make the producer go on with `sequence`, unless the table knows the producer already.

        Used after a re-opening: batches that waited were refused and will be sent again. Later
        ones are already on their way and must not be appended before them.
        """
        # A seal that was not written seals nothing: the caller that wanted it asks again.
        if producer_id != SEALER and producer_id not in self._producers:
            last = (sequence - 1) % _SEQUENCES
            self._producers[producer_id] = _Producer(epoch, last, now_ms)

    def expire(self, before_ms: int) -> None:
        """Forget producers silent since before `before_ms`."""
        silent = [
            pid
            for pid, known in self._producers.items()
            if known.last_ms < before_ms and pid != SEALER and known.open_first is None
        ]
        for pid in silent:
            del self._producers[pid]
        while self._named and next(iter(self._named.values())).last_ms < before_ms:
            self._named.popitem(last=False)

    def snapshot(self, up_to_offset: int) -> list[ProducerSnapshot]:
        """Describe all producers as of the batches below `up_to_offset`."""
        snapshots = []
        for pid, latest in (*self._producers.items(), *self._named.items()):
            known = latest.as_of(up_to_offset)
            if known is not None:
                marks = [mark for mark in known.marks if mark.first_offset < up_to_offset]
                snapshots.append(ProducerSnapshot(pid, known.epoch, known.last_ms, marks[-WINDOW:]))
        return snapshots

    def learn(self, snapshots: list[ProducerSnapshot]) -> None:
        """Add what another table knew of newer batches, which are in no segment any more."""
        newer = []
        for snapshot in snapshots:
            known = self._table(snapshot).get(snapshot.producer_id)
            last = known.marks[-1].first_offset if known and known.marks else -1
            if (
                snapshot.producer_id != SEALER
                and snapshot.marks
                and last < snapshot.marks[-1].first_offset
            ):
                newer.append(snapshot)
        self.restore(newer)

    def restore(self, snapshots: list[ProducerSnapshot]) -> None:
        """Set producers to what a snapshot says."""
        for snapshot in snapshots:
            known = _Producer(snapshot.epoch, snapshot.marks[-1][1], snapshot.last_ms)
            known.marks.extend(snapshot.marks)
            self._table(snapshot)[snapshot.producer_id] = known

    def _table(self, snapshot: ProducerSnapshot) -> dict[int, _Producer]:
        return self._named if snapshot.producer_id < NAMED_BELOW else self._producers
