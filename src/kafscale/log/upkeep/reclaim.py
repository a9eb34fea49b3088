"""Reclaiming dead bytes inside objects that are still needed.

Here: rewriting an object without the lanes that no reader can read any more. An object whose lanes
have all ended goes as a whole, by retention; this is for objects in which one long-lived lane keeps
the bytes of many others. The pipeline does it at scale (`retain`), a log's owner a little at a
time.
Next door: moving log starts, by which lanes end (retention.py).
"""

from collections.abc import Collection, Mapping
from typing import Final

import structlog

from kafscale.log.formats import manifest
from kafscale.log.formats.manifest import LaneMark, Manifest, Replacement, SegmentEntry
from kafscale.log.formats.segment import LaneBatches, Span
from kafscale.log.protocol import commits
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.model.errors import CorruptObject, ObjectMissing

logger = structlog.get_logger()

HALF: Final = 2


async def reclaim(
    log: Log, ended: Collection[int], most_bytes: int, broken: set[str] | None = None
) -> int:
    """Rewrite objects that are half dead, or hold anything of lanes that have `ended`.

    Reads at most `most_bytes`, one object at least; later calls rewrite the others. Gives how many
    objects were rewritten. An object that is broken stays as it is. It is reported once and added
    to `broken`; objects in there are not read again.
    """
    broken = set() if broken is None else broken
    async with log.history:
        if log.state is not LogState.OPEN:
            return 0
        try:
            replacements = await _rewrite(log, ended, most_bytes, broken)
        except ObjectMissing as problem:
            logger.warning("reclaiming_given_up", folder=log.folder, reason=str(problem))
            await log.history.follow()
            return 0
        if not replacements:
            return 0
        outputs = [replacement.outputs[0].name for replacement in replacements]

        def change(old: Manifest) -> Manifest:
            if not all(manifest.replaces(old, replacement) for replacement in replacements):
                raise commits.LostRace("another process rewrote these objects")
            return manifest.replace(old, replacements)

        def is_in(newer: Manifest) -> bool:
            return set(outputs) <= newer.names()

        if not await log.history.commit(change, is_in, outputs):
            return 0
        logger.info("reclaimed", folder=log.folder, objects=len(replacements))
        return len(replacements)


async def _rewrite(
    log: Log, ended: Collection[int], most_bytes: int, broken: set[str]
) -> list[Replacement]:
    """Write the objects that will replace others; adds to `broken` what cannot be read."""
    past = log.committed.manifest
    replacements: list[Replacement] = []
    for entry in past.segments:
        if replacements and most_bytes < entry.size:
            break
        if entry.name in broken or not is_worth_it(entry, past.lanes, ended):
            continue
        most_bytes -= entry.size
        try:
            rewritten = await _without_the_dead(log, entry)
        except CorruptObject as problem:
            # What is alive in it may still be readable: nothing is rewritten by guessing.
            broken.add(entry.name)
            log.observer.found_broken(entry.name)
            logger.error("object_broken", folder=log.folder, reason=str(problem))
        else:
            replacements.append(Replacement((entry,), (rewritten,)))
    return replacements


async def forget(log: Log, ended: Collection[int]) -> int:
    """Forget lanes that have ended and of which nothing is left; gives how many there were."""
    async with log.history:
        if log.state is not LogState.OPEN:
            return 0
        past = log.committed.manifest
        gone = past.lanes.keys() - manifest.forget_lanes(past, ended).lanes.keys()
        in_tail = {span.lane for flush in log.committed.tail for span in flush.entry.spans()}
        gone = {lane for lane in gone - in_tail if not len(log.lane(lane).watchers)}
        if not gone:
            return 0

        def change(old: Manifest) -> Manifest:
            return manifest.forget_lanes(old, gone)

        if not await log.history.commit(change, lambda newer: not gone & newer.lanes.keys()):
            return 0
        log.committed.forget_lanes(gone)
        return len(gone)


def is_worth_it(entry: SegmentEntry, lanes: Mapping[int, LaneMark], ended: Collection[int]) -> bool:
    """Whether to rewrite an object: it has live bytes, and many dead ones or some of `ended`."""
    dead = [span for span in entry.spans() if not is_alive(span, lanes)]
    if len(dead) in (0, len(entry.spans())):
        return False  # nothing to gain, or gone as a whole before long
    is_urgent = any(span.lane in ended for span in dead)
    return is_urgent or HALF * sum(span.length for span in dead) >= entry.size


def is_alive(span: Span, lanes: Mapping[int, LaneMark]) -> bool:
    """Whether a reader may still read any of it."""
    return span.lane not in lanes or span.last >= lanes[span.lane].start


async def _without_the_dead(log: Log, entry: SegmentEntry) -> SegmentEntry:
    data = await rollup.read_committed(log, entry, "reclaiming")
    alive = [
        LaneBatches(
            span.lane,
            span.first,
            span.last,
            span.records,
            span.min_timestamp_ms,
            span.max_timestamp_ms,
            [data[span.start : span.start + span.length]],
        )
        for span in entry.spans()
        if is_alive(span, log.committed.manifest.lanes)
    ]
    return await rollup.write_anew(log, entry.base, entry.end, alive)
