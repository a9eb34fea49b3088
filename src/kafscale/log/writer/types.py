"""What a log is told and what it tells: settings, reports, answers.

Here: plain data. Next door: the log that uses it (log.py), its states (states.py).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.writer.tail_memory import Chunk
from kafscale.model.errors import KafscaleError

# None when the flush was committed, else why it was not.
CommitOutcome = KafscaleError | None


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a log flushes and how long it waits before it believes or deletes."""

    flush_bytes: int = 4 << 20
    flush_messages: int = 10_000
    flush_interval_s: float = 0.5  # 0: at once whenever no flush is in flight
    largest_flush_bytes: int = 16 << 20
    segment_bytes: int = 100 << 20
    index_interval_bytes: int = 4096
    index_from_bytes: int = 1 << 20  # smaller flushes are read whole and get no index
    rollup_objects: int = 500
    grace_s: float = 600.0
    producer_expiry_ms: int = 86_400_000


@dataclass(slots=True)
class Observer:
    """What a log reports; the engine turns it into metrics."""

    # base, bytes, records, seconds
    flushed: Callable[[int, int, int, float], None] = lambda _base, _size, _records, _seconds: None
    rolled_up: Callable[[int], None] = lambda _objects: None
    buffered: Callable[[int], None] = lambda _delta: None
    found_broken: Callable[[str], None] = lambda _name: None


class Appended(NamedTuple):
    """Where a batch went, and the future that tells when it is committed (None: it is).

    All batches of a flush share the future: shield it, never cancel it.
    """

    first: int
    committed: asyncio.Future[CommitOutcome] | None
    is_duplicate: bool


class TailFlush(NamedTuple):
    """A committed flush that no manifest covers yet."""

    entry: SegmentEntry
    chunks: list[tuple[int, Chunk]]  # (lane number, its batches), while they are in memory


async def wait_for_commit(done: asyncio.Future[CommitOutcome]) -> None:
    """Wait until a batch is committed; raises why it was not."""
    problem = await asyncio.shield(done)
    if problem is not None:
        raise problem
