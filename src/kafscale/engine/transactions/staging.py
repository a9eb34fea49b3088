"""Staged transactions: a client wants to commit, and records may be in the memory of brokers alone.

Here: what the owner of a log does about one. If all of a transaction lies in one log, its chain
decides: records and commit markers go into one object, or abort markers do (rules B2 to B4). If it
lies in several logs, each owner writes what it holds and says so, and the row decides (rules B5
and B6).
Next door: who calls this (endings.py), who stages (coordinator.py), markers
(log/writer/transaction_ends.py).
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

import structlog

from kafscale.engine.transactions.rows import (
    LogSession,
    RegisteredPartition,
    StoredTransaction,
    TransactionRows,
)
from kafscale.log.writer import transaction_ends
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import CommitOutcome, wait_for_commit
from kafscale.transactions.rows import Transaction

logger = structlog.get_logger()

OwnedLanes = dict[Log, list[tuple[RegisteredPartition, int]]]  # with the numbers of the lanes


class SettledInChain(NamedTuple):
    """What the chain of a log says of a transaction."""

    is_kept: bool  # it is committed there
    marked: set[RegisteredPartition]  # places that have the marker, or are gone


async def write_markers(
    stored: StoredTransaction,
    row: Transaction,
    lanes: OwnedLanes,
    gone: set[RegisteredPartition],
) -> SettledInChain | None:
    """Let the chain decide, in the logs of this broker; None if it has none of them.

    Commit markers are written only by the session that has held all records, and for all places
    at once. A later owner, which finds no marker, writes abort markers: then no commit can follow.
    """
    found: bool | None = None
    marked = set(gone)
    for log, places in lanes.items():
        numbers = [number for _, number in places]
        outcome = _outcome(log, numbers, row)
        if outcome is None:
            is_whole = len(places) + len(gone) == len(stored.places)
            is_same = stored.sessions == {LogSession(log.folder, log.session)}
            done = transaction_ends.end_together(
                log,
                numbers,
                row.producer_id,
                row.marker_epoch,
                row.turn,
                committed=is_whole and is_same,
            )
            if done is not None:
                await wait_for_commit(done)
            outcome = _outcome(log, numbers, row)
        if outcome is None:
            continue  # the log was lost meanwhile
        found = outcome
        marked |= {place for place, _ in places}
        if not outcome:
            logger.warning("buffered_transaction_lost", id=stored.transactional_id, log=log.folder)
    return None if found is None else SettledInChain(found, marked)


def _outcome(log: Log, numbers: Sequence[int], row: Transaction) -> bool | None:
    """How the transaction has ended in a log: all its markers there say the same."""
    for number in numbers:
        known = transaction_ends.outcome_of(log.lane(number), row.producer_id, row.turn)
        if known is not None:
            return known
    return None


async def keep(
    rows: TransactionRows,
    stored: StoredTransaction,
    logs: Collection[Log],
    folders: Collection[str],
) -> bool | None:
    """Write what this broker holds; gives the decision, None if others have not said theirs.

    `folders`: the logs that have the transaction's partitions. What was held for any other log is
    lost with it: its partitions have moved.
    """
    assert stored.row is not None
    if any(session.folder not in folders for session in stored.sessions):
        return False
    waits: list[tuple[Log, LogSession, asyncio.Future[CommitOutcome] | None]] = []
    for log in logs:
        mine = LogSession(log.folder, log.session)
        noted = {session for session in stored.sessions if session.folder == log.folder}
        if noted - {mine}:
            return False
        if noted and mine not in stored.kept:
            waits.append((log, mine, log.keep(stored.row.producer_id)))
    kept: set[LogSession] = set()
    for log, mine, done in waits:  # all logs write side by side
        if done is not None:
            await wait_for_commit(done)
        if log.session != mine.token:
            return False
        kept.add(mine)
    if stored.kept | kept >= stored.sessions:
        return True
    if kept:
        await rows.report_kept(stored, kept)
    return None
