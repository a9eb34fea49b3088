"""What a reader may see of a partition: a function of its lane and the isolation level.

Here: the only place that decides where visible records end, and which batches are left out. Fetch,
long polls, fetch sessions, subscriptions, ListOffsets and OffsetForLeaderEpoch all ask it.
Never here: reading records (reads.py), or a protocol's number for an isolation level.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum

from kafscale.log.formats.transactions import AbortedIndex, is_aborted
from kafscale.log.writer.lane import Lane
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.records.control import empty_batch


class IsolationLevel(IntEnum):
    """Which records of a transaction a reader sees."""

    READ_UNCOMMITTED = 0  # all up to the high watermark
    READ_COMMITTED = 1  # all up to the last stable offset


READ_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
READ_COMMITTED = IsolationLevel.READ_COMMITTED


def visible_ends(lane: Lane) -> tuple[int, int]:
    """The offset after the last record that a reader may see, by isolation level.

    For READ_UNCOMMITTED this is the partition's high watermark, for READ_COMMITTED its last stable
    offset. They are the same as long as no transaction is open. A topic with
    `kafscale.fetch.buffered` shows batches that are not in the bucket yet, except to readers of
    committed records while a transaction is open.
    Answers to Fetch carry both, for a thousand partitions each: so this is one call for both.
    """
    if lane.rules.fetch_buffered:
        return lane.end, lane.stable if lane.producers.has_open else lane.end
    return lane.high, lane.stable


def visible_end(lane: Lane, isolation: IsolationLevel) -> int:
    """The same for a reader of one isolation level."""
    return visible_ends(lane)[isolation]


class CommittedFilter:
    """Leaves out what a reader of committed records does not get.

    Made before the batches are read (rule T12): an entry of the index may go together with the
    batches that it is about.
    """

    __slots__ = ("_aborted", "_end")

    def __init__(self, aborted: AbortedIndex, end: int) -> None:
        """Leave out the aborted ranges, and everything from `end` on."""
        self._aborted = aborted
        self._end = end

    def __call__(self, pieces: Sequence[memoryview]) -> list[memoryview]:
        """What is left of some batches.

        If nothing is, one batch without records takes the reader past the aborted ones.
        """
        kept: list[memoryview] = []
        first: BatchHeader | None = None
        last: BatchHeader | None = None
        for piece in pieces:
            begin = 0  # of what has not been taken over yet
            end = len(piece)
            for at, header in batch.walk(piece):
                if header.base_offset >= self._end:
                    end = at
                    break
                if is_aborted(self._aborted, header):
                    if at > begin:
                        kept.append(piece[begin:at])
                    begin = at + header.size
                    first, last = first or header, header
            if end > begin:
                kept.append(piece[begin:end])
            if end < len(piece):
                break
        if kept or first is None or last is None:
            return kept
        made = empty_batch(
            first.base_offset, last.last_offset, last.max_timestamp_ms, last.leader_epoch
        )
        return [memoryview(made)]


def filter_for(lane: Lane, isolation: IsolationLevel) -> CommittedFilter | None:
    """What a reader's batches go through; None if the reader gets all up to its end."""
    if isolation is READ_COMMITTED and lane.transactions.hides_anything:
        return CommittedFilter(lane.transactions.aborted_by_producer(), lane.stable)
    return None


def filter_of_slow_read(
    lane: Lane, isolation: IsolationLevel
) -> Callable[[list[memoryview]], list[memoryview]]:
    """The same for batches that come later: a transaction may begin while the store is read."""
    committed = filter_for(lane, isolation)
    if committed is not None or isolation is not READ_COMMITTED:
        return committed or (lambda pieces: pieces)
    end, markers = lane.stable, lane.markers

    def leave_out_newer(pieces: list[memoryview]) -> list[memoryview]:
        if lane.markers == markers and not lane.transactions.hides_anything:
            return pieces
        return CommittedFilter({}, end)(pieces)

    return leave_out_newer
