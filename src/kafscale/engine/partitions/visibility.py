"""What a reader may see of a partition: one function of its lane and the isolation level.

Here: the only place that decides where visible records end. Fetch, long polls, fetch sessions,
subscriptions, ListOffsets and OffsetForLeaderEpoch all ask it. Transactions will change exactly
this function.
Never here: reading records (reads.py), or a protocol's number for an isolation level.
"""

from enum import IntEnum

from kafscale.log.writer.lane import Lane


class IsolationLevel(IntEnum):
    """Which records of a transaction a reader sees."""

    READ_UNCOMMITTED = 0  # all up to the high watermark
    READ_COMMITTED = 1  # all up to the last stable offset


READ_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
READ_COMMITTED = IsolationLevel.READ_COMMITTED


def visible_ends(lane: Lane) -> tuple[int, int]:
    """The offset after the last record that a reader may see, by isolation level.

    For READ_UNCOMMITTED this is the partition's high watermark, for READ_COMMITTED its last stable
    offset. They are the same as long as there are no transactions. A topic with
    `kafscale.fetch.buffered` shows batches that are not in the bucket yet.
    Answers to Fetch carry both, for a thousand partitions each: so this is one call for both.
    """
    end = lane.end if lane.rules.fetch_buffered else lane.high
    return end, end


def visible_end(lane: Lane, isolation: IsolationLevel) -> int:
    """The same for a reader of one isolation level."""
    return visible_ends(lane)[isolation]
