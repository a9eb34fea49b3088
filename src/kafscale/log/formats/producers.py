"""What a lane remembers of its idempotent producers.

Here: the five-batch window, the verdict on a new batch, snapshots. Pure; time is an argument.
Next door: the log that asks before each append (writer/log.py), manifests, which carry snapshots
(manifest.py).

The table includes batches that wait for their commit: the next batch of the same producer must
follow them. After a re-opening it is built anew from what is in the bucket.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from kafscale.model.errors import (
    DuplicateSequence,
    OutOfOrderSequence,
    StaleProducerEpoch,
    UnknownProducer,
)
from kafscale.records.batch import BatchHeader

WINDOW: Final = 5
SEALER: Final = 1 << 62  # above every client's id: its one batch is the last of a lane
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


def _after(sequence: int) -> int:
    return (sequence + 1) % _SEQUENCES


def _is_behind(sequence: int, last: int) -> bool:
    """Whether `sequence` is at or before `last` on the circle of sequence numbers."""
    return (last - sequence) % _SEQUENCES < _SEQUENCES // 2


class ProducerTable:
    """Producer id to its recent batches, for one lane."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        """Count the producers remembered."""
        return len(self._producers)

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
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            earlier = known.as_of(committed_to) if known else None
            known = _Producer(header.producer_epoch, -1, now_ms, before=earlier)
            self._producers[header.producer_id] = known
        elif known.before and known.marks[0].first_offset < committed_to:
            known.before = None
        known.last_sequence = header.last_sequence
        known.last_ms = now_ms
        marks = known.marks
        marks.append(BatchMark(header.base_sequence, header.last_sequence, first_offset))
        while len(marks) > WINDOW and marks[WINDOW].first_offset < committed_to:
            marks.popleft()

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
            if known.last_ms < before_ms and pid != SEALER
        ]
        for pid in silent:
            del self._producers[pid]

    def snapshot(self, up_to_offset: int) -> list[ProducerSnapshot]:
        """Describe all producers as of the batches below `up_to_offset`."""
        snapshots = []
        for pid, latest in self._producers.items():
            known = latest.as_of(up_to_offset)
            if known is not None:
                marks = [mark for mark in known.marks if mark.first_offset < up_to_offset]
                snapshots.append(ProducerSnapshot(pid, known.epoch, known.last_ms, marks[-WINDOW:]))
        return snapshots

    def learn(self, snapshots: list[ProducerSnapshot]) -> None:
        """Add what another table knew of newer batches, which are in no segment any more."""
        newer = []
        for snapshot in snapshots:
            known = self._producers.get(snapshot.producer_id)
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
            self._producers[snapshot.producer_id] = known
