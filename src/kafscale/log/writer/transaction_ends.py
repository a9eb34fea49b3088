"""Markers: the last batch of a transaction in a lane.

Here: which marker a lane takes. The caller has read in the metadata store how the transaction
ended; nothing else decides (rule T4).
Next door: appending a batch (log.py), what follows from markers (formats/transactions.py), the
broker's part (engine/transactions).
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from kafscale.log.formats.transactions import OpenTransaction
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import CommitOutcome
from kafscale.model.errors import NotTheOwner, OffsetRangeExhausted
from kafscale.records import batch
from kafscale.records.control import marker_batch

_MARKER_BYTES: Final = 78


def end_transaction(
    log: Log, lane_number: int, producer_id: int, epoch: int, turn: int, *, committed: bool
) -> asyncio.Future[CommitOutcome] | None:
    """Write the marker of a transaction; gives its commit, None if it is committed already.

    Rule T8: a lane takes a marker only with a turn above that of the producer's last one.
    """
    log.require_taking()
    lane = log.lane(lane_number)
    if turn <= lane.transactions.last_turn(producer_id):
        return None
    if turn <= lane.producers.last_turn(producer_id):
        return log.pending_marker(lane, producer_id)
    return _append(log, lane, producer_id, epoch, turn, committed=committed)


def end_together(
    log: Log, numbers: Sequence[int], producer_id: int, epoch: int, turn: int, *, committed: bool
) -> asyncio.Future[CommitOutcome] | None:
    """Write the markers of all these lanes in one object, behind what waits (rule B3).

    Gives its commit; None if a marker of that turn waits or is there already.
    """
    log.require_taking()
    lanes = [log.lane(number) for number in numbers]
    for lane in lanes:
        if lane.producers.last_turn(producer_id) >= turn:
            return log.pending_marker(lane, producer_id)
        if lane.producers.is_sealed:
            raise NotTheOwner(f"lane {lane.number} of {log.folder} is sealed")
        if lane.end >= lane.rules.offset_range:
            raise OffsetRangeExhausted(f"lane {lane.number} of {log.folder} is full")
    done = None
    with log.one_object(len(lanes) * _MARKER_BYTES):
        for lane in lanes:
            done = _append(log, lane, producer_id, epoch, turn, committed=committed)
    return done


def outcome_of(lane: Lane, producer_id: int, turn: int) -> bool | None:
    """Whether the chain says that a turn was committed; None if it says nothing yet."""
    marker = lane.transactions.markers.get(producer_id)
    return None if marker is None or marker.turn != turn else marker.committed


def abort_unclaimed(
    log: Log, lane_number: int, opened: OpenTransaction
) -> asyncio.Future[CommitOutcome] | None:
    """Rule T7: end a transaction that no row claims; None if it is not the open one any more.

    The caller has read the rows since it saw this transaction open.
    """
    log.require_taking()
    lane = log.lane(lane_number)
    known = lane.producers.open_transaction(opened.producer_id)
    if known != (opened.epoch, opened.first):
        return None
    turn = lane.producers.last_turn(opened.producer_id)
    return _append(log, lane, opened.producer_id, opened.epoch, turn, committed=False)


def each_open(log: Log) -> Iterator[tuple[Lane, OpenTransaction]]:
    """Transactions that have committed batches in a log and no marker."""
    for lane in log.lanes.values():
        if lane.transactions.open:
            for opened in lane.transactions.open.values():
                yield lane, opened


def _append(
    log: Log, lane: Lane, producer_id: int, epoch: int, turn: int, *, committed: bool
) -> asyncio.Future[CommitOutcome] | None:
    made = marker_batch(producer_id, epoch, turn, log.clock.now_ms(), committed=committed)
    data = memoryview(made)
    return log.append(lane.number, batch.read_header(data), data, acknowledged=False).committed
