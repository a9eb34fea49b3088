"""What a log is told and what it tells: settings, reports, states, answers.

Here: plain data. Next door: the log that uses it (log.py).
"""

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafscale.log.formats.manifest import Entry
from kafscale.log.writer.flush_queue import Outcome
from kafscale.log.writer.tail_memory import Chunk


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


class State(enum.Enum):
    """The life of a log object in memory."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"
    STOPPED = "stopped"


class Appended(NamedTuple):
    """Where a batch went, and the future that tells when it is committed (None: it is).

    The future is shared by everyone in the same flush: shield it, never cancel it.
    """

    first: int
    committed: asyncio.Future[Outcome] | None
    is_duplicate: bool


class Tail(NamedTuple):
    """A committed flush that no manifest covers yet."""

    entry: Entry
    chunks: list[tuple[int, Chunk]]  # (lane number, its batches), while they are in memory
