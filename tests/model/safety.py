"""What must hold, whatever the actors did.

In this room: the log as a reader sees it that opens it now, and the promises, each with a name.
Next door: the steps that must not break them.

A record counts as promised as soon as a reader that opens the log can read it: that is stronger
than "acknowledged", because a writer acknowledges only what it shows (GHOST checks that).
"""

from typing import Final, NamedTuple

from tests.model.state import Bounds, Rules, State, Writer, exists, output_of, segment_at
from tests.model.writers import walk

LOST: Final = "LOST: a readable record is gone or has changed its position"
GHOST: Final = "GHOST: a writer acknowledged and shows what no reader that opens the log will find"
STALE: Final = "STALE: an opener misses records that were readable before it began"
DANGLING: Final = "DANGLING: the newest manifest names an object that does not exist"
UNREADABLE: Final = "UNREADABLE: a reader with a fresh proof misses an object it was told of"
SHOWN: Final = "SHOWN: a consumer was shown what is not in the log"
GAP: Final = "GAP: the listed positions are not dense, or end inside a segment"
DUPLICATE: Final = "DUPLICATE: a retried record is stored twice"
INTRUDER: Final = "INTRUDER: a record of the deleted topic is in the new one"
UNPINNED: Final = "UNPINNED: an object of a named snapshot is gone"
ALARM: Final = "ALARM: a segment does not name its predecessor; the log stands still"


class Log(NamedTuple):
    """The log as read by rule 1 in one go."""

    start: int
    end: int
    records: tuple[int, ...]  # from the base of the first listed object
    base: int
    broken: str

    def at(self, position: int) -> int:
        return self.records[position - self.base]


_read: dict[tuple[object, ...], Log] = {}


def read(state: State, rules: Rules) -> Log:
    """Open the log afresh; remembered, because most steps leave the objects alone."""
    key = (state.segments, state.outputs, state.newest, rules.predecessor_id)
    log = _read.get(key)
    if log is None:
        if len(_read) > 50_000:
            _read.clear()
        log = _read[key] = _open(state, rules)
    return log


def _open(state: State, rules: Rules) -> Log:
    newest = state.newest
    records: tuple[int, ...] = ()
    base = position = newest.entries[0].base if newest.entries else newest.end
    broken = ""
    for entry in newest.entries:
        kind, name = entry.key
        found = segment_at(state, name) if kind == "flush" else output_of(state, name)
        if found is None:
            return Log(newest.start, position, records, base, DANGLING)
        if entry.base != position or found.base != position:
            broken = GAP
        records += found.records
        position = entry.end
    if position != newest.end or not newest.start <= newest.end or newest.start < base:
        broken = broken or GAP
    if len(records) != position - base:
        return Log(newest.start, position, records, base, broken or GAP)
    tail, stopped = walk(state, newest, rules)
    for segment in tail:
        records += segment.records
        position = segment.end
    return Log(newest.start, position, records, base, ALARM if stopped else broken)


def violations(before: State, after: State, rules: Rules, bounds: Bounds) -> list[str]:
    """Every promise this step broke."""
    log = read(after, rules)
    found = [log.broken] if log.broken else []
    pin = after.pin
    if pin is not None and pin.stage == "kept" and not all(exists(after, k) for k in pin.keys):
        found.append(UNPINNED)
    if log.broken not in (DANGLING, GAP):
        if before.recreations == after.recreations and _lost(read(before, rules), log):
            found.append(LOST)
        if len(set(log.records)) != len(log.records):
            found.append(DUPLICATE)
        if any(record < after.born for record in log.records):
            found.append(INTRUDER)
        for old, writer in zip(before.writers, after.writers, strict=True):
            found += _of_writer(old, writer, after, log, bounds)
    return found


def _lost(old: Log, new: Log) -> bool:
    if old.broken:
        return False
    if new.end < old.end or new.start < old.start:
        return True
    first = max(new.start, old.base)
    return any(old.at(p) != new.at(p) for p in range(first, old.end))


def _of_writer(old: Writer, writer: Writer, state: State, log: Log, bounds: Bounds) -> list[str]:
    view = writer.view
    if view is None or writer.stage in ("walked", "reading"):
        return []
    if old.stage in ("listed", "reading") and writer.stage == "ready" and view.end < old.listed[1]:
        return [STALE]
    for segment in view.tail:
        for n, record in enumerate(segment.records):
            position = segment.base + n
            if position >= log.end or (position >= log.base and log.at(position) != record):
                return [GHOST]
    got = writer.got
    if got is not None and got.stage == "shown" and got != old.got:
        for position, record in enumerate(got.records, got.base):
            if position >= log.end or (position >= log.base and log.at(position) != record):
                return [SHOWN]
    # A writer's own commits prove its tail, not that no rewrite has taken place; so the promise
    # that objects outlive their listing by G is one to readers.
    if writer.name == "R" and writer.proof <= bounds.fresh_until:
        keys = [e.key for e in view.manifest.entries] + [("flush", s.base) for s in view.tail]
        if not all(exists(state, key) for key in keys):
            return [UNREADABLE]
    return []
