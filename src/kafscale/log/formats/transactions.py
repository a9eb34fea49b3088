"""What a lane knows of transactions: which are open, which were aborted, the last marker of each.

Here: a function of the lane's committed batches, in their order. From it follow the last stable
offset and the batches that a reader of committed records never gets. Pure.
Next door: the lane that keeps it (writer/lane.py), manifests, which hand it on (manifest.py),
sequences and what waits for its commit (producers.py).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from kafscale.model.errors import CorruptObject
from kafscale.records import control
from kafscale.records.batch import TRANSACTIONAL, BatchHeader

NO_TURN: Final = -1


class OpenTransaction(NamedTuple):
    """A transaction that has batches in the lane and no marker yet."""

    producer_id: int
    epoch: int
    first: int  # offset of its first record


class AbortedRange(NamedTuple):
    """Offsets of an aborted transaction: what its producer wrote there does not count."""

    producer_id: int
    first: int
    last: int  # offset of the marker


class LastMarker(NamedTuple):
    """The last marker of a producer."""

    producer_id: int
    epoch: int
    turn: int
    committed: bool
    at_ms: int


class TransactionEvent(NamedTuple):
    """A transaction begins or ends in a lane of a segment."""

    lane: int
    producer_id: int
    epoch: int
    offset: int
    ends: str  # how: "" it begins, "c" it is committed, "a" it is aborted
    turn: int = NO_TURN


class TransactionTable(msgspec.Struct, frozen=True, kw_only=True):
    """What a segment says of transactions, beside its batches."""

    events: list[TransactionEvent] = []

    def of_lane(self, lane: int) -> list[TransactionEvent]:
        """The events of one lane, in the order of its offsets."""
        return [event for event in self.events if event.lane == lane]


def event_of(lane: int, header: BatchHeader, first: int, data: memoryview) -> TransactionEvent:
    """What a transactional batch means; `data` begins with it."""
    who = lane, header.producer_id, header.producer_epoch, first
    if not control.is_marker(header):
        return TransactionEvent(*who, "")
    committed, turn = control.read_marker(data)
    return TransactionEvent(*who, "c" if committed else "a", turn)


def encode_table(events: Iterable[TransactionEvent]) -> bytes:
    """The table of a segment. Of the batches of one transaction the first is enough."""
    kept: list[TransactionEvent] = []
    begun: set[tuple[int, int]] = set()
    for event in events:
        who = event.lane, event.producer_id
        if event.ends:
            begun.discard(who)
        elif who in begun:
            continue
        else:
            begun.add(who)
        kept.append(event)
    return msgspec.json.encode(TransactionTable(events=kept))


def decode_table(data: memoryview | bytes) -> TransactionTable:
    """Read the table of a segment."""
    try:
        return _TABLE.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise CorruptObject(f"not a transaction table: {problem}") from problem


_TABLE: Final = msgspec.json.Decoder(TransactionTable)


class TransactionMarks(msgspec.Struct, array_like=True, frozen=True):
    """The transactions of a lane as a manifest stores them."""

    open: list[OpenTransaction] = []
    aborted: list[AbortedRange] = []
    markers: list[LastMarker] = []

    def aborted_by_producer(self) -> "AbortedIndex":
        """Which batches do not count."""
        index: AbortedIndex = {}
        for row in self.aborted:
            index.setdefault(row.producer_id, []).append(row)
        return index

    def since(self, start: int) -> "TransactionMarks":
        """The same for a lane that begins at `start`."""
        if not self.aborted or self.aborted[0].last >= start:
            return self
        kept = [row for row in self.aborted if row.last >= start]
        return TransactionMarks(self.open, kept, self.markers)


AbortedIndex = dict[int, list[AbortedRange]]  # by producer


def is_aborted(index: AbortedIndex, header: BatchHeader) -> bool:
    """Whether a batch belongs to a transaction that was aborted."""
    if not header.attributes & TRANSACTIONAL or control.is_marker(header):
        return False
    rows = index.get(header.producer_id, ())
    return any(row.first <= header.base_offset < row.last for row in rows)


class LaneTransactions:
    """Transactions in the committed batches of one lane."""

    __slots__ = ("_by_producer", "aborted", "markers", "open")

    def __init__(self) -> None:
        self.open: dict[int, OpenTransaction] = {}  # by producer, as the markers
        self.markers: dict[int, LastMarker] = {}
        # Replaced as a whole where entries go: a reader keeps the list that it has begun with.
        self.aborted: list[AbortedRange] = []
        self._by_producer: AbortedIndex = {}

    @property
    def hides_anything(self) -> bool:
        """Whether a reader of committed records gets less than all."""
        return bool(self.open or self.aborted)

    def first_open(self) -> int | None:
        """The first offset whose outcome is not known; None if all are."""
        return min((row.first for row in self.open.values()), default=None)

    def note(self, header: BatchHeader, first: int, data: memoryview, at_ms: int) -> None:
        """Add a committed batch that is transactional; `data` begins with it."""
        self.take(event_of(0, header, first, data), at_ms)

    def take(self, event: TransactionEvent, at_ms: int) -> None:
        """The same, as a segment's table tells it."""
        _, producer_id, epoch, offset, ends, turn = event
        if not ends:
            self.open.setdefault(producer_id, OpenTransaction(producer_id, epoch, offset))
            return
        is_commit = ends == "c"
        ended = self.open.pop(producer_id, None)
        if ended is not None and not is_commit:
            self._add_aborted(AbortedRange(producer_id, ended.first, offset))
        self.markers[producer_id] = LastMarker(producer_id, epoch, turn, is_commit, at_ms)

    def _add_aborted(self, row: AbortedRange) -> None:
        self.aborted.append(row)
        self._by_producer.setdefault(row.producer_id, []).append(row)

    def aborted_by_producer(self) -> AbortedIndex:
        """Which batches do not count. It keeps what it has: take it before the batches are read."""
        return self._by_producer

    def last_turn(self, producer_id: int) -> int:
        """The turn of a producer's last marker."""
        marker = self.markers.get(producer_id)
        return NO_TURN if marker is None else marker.turn

    def forget_below(self, start: int) -> None:
        """Drop aborted ranges that no reader can reach any more."""
        if self.aborted and self.aborted[0].last < start:
            self._set_aborted(row for row in self.aborted if row.last >= start)

    def _set_aborted(self, rows: Iterable[AbortedRange]) -> None:
        self.aborted, self._by_producer = [], {}
        for row in rows:
            self._add_aborted(row)

    def expire(self, before_ms: int) -> None:
        """Forget the markers of producers that have had no marker since `before_ms`."""
        silent = [
            one.producer_id
            for one in self.markers.values()
            if one.at_ms < before_ms and one.producer_id not in self.open
        ]
        for producer_id in silent:
            del self.markers[producer_id]

    def marks(self, start: int) -> TransactionMarks | None:
        """Describe all of it for a manifest; None if there is nothing to describe."""
        if not (self.open or self.aborted or self.markers):
            return None
        return TransactionMarks(
            list(self.open.values()), list(self.aborted), list(self.markers.values())
        ).since(start)

    def restore(self, marks: TransactionMarks | None) -> None:
        """Go on from what a manifest says."""
        if marks is not None:
            self.open = {row.producer_id: row for row in marks.open}
            self.markers = {row.producer_id: row for row in marks.markers}
            self._set_aborted(marks.aborted)

    def learn(self, marks: TransactionMarks | None) -> None:
        """Add the markers of another lane's manifest whose batches are not there any more."""
        for row in marks.markers if marks is not None else ():
            if self.last_turn(row.producer_id) < row.turn:
                self.markers[row.producer_id] = row
