"""Giving back what is dead inside objects that are still alive.

Here: rewriting an object without the lanes that nobody can read any more. An object whose lanes
have all ended goes as a whole, by retention; this is for those where one long-lived lane keeps the
bytes of many others. The pipeline does it at scale (`retain`), a log's owner a little at a time.
Next door: moving log starts, by which lanes end (history.py).
"""

from collections.abc import Collection, Mapping
from typing import Final

import structlog

from kafscale.log.formats import manifest, segment
from kafscale.log.formats.manifest import Entry, LaneMark, Manifest, Replacement
from kafscale.log.formats.segment import LaneBatches, Span
from kafscale.log.protocol import commits
from kafscale.log.upkeep import history
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import State
from kafscale.model.errors import CorruptObject, ObjectMissing

logger = structlog.get_logger()

HALF: Final = 2


async def reclaim(
    log: Log, ended: Collection[int], most_bytes: int, broken: set[str] | None = None
) -> int:
    """Rewrite objects that are half dead, or hold anything of lanes that have `ended`.

    Reads at most `most_bytes`, one object at least; the others have their turn another time.
    Gives how many objects were rewritten. An object that is broken stays as it is, is told of once
    and added to `broken`; those are not read again.
    """
    broken = set() if broken is None else broken
    async with log.busy_with_history:
        if log.state is not State.OPEN:
            return 0
        wanted: list[Replacement] = []
        for entry in log.manifest.segments:
            if wanted and most_bytes < entry.size:
                break
            if entry.name not in broken and is_worth_it(entry, log.manifest.lanes, ended):
                most_bytes -= entry.size
                try:
                    wanted.append(Replacement((entry,), (await _without_the_dead(log, entry),)))
                except CorruptObject as problem:
                    # What is alive in it may be readable yet: nothing is made of it by guessing.
                    broken.add(entry.name)
                    log.observer.found_broken(entry.name)
                    logger.error("object_broken", folder=log.folder, reason=str(problem))
                except ObjectMissing as problem:
                    logger.warning("reclaiming_given_up", folder=log.folder, reason=str(problem))
                    await log.recover_view()
                    return 0
        if not wanted:
            return 0
        outputs = [row.outputs[0].name for row in wanted]

        def change(old: Manifest) -> Manifest:
            if not all(manifest.replaces(old, row) for row in wanted):
                raise commits.LostRace("somebody else rewrote these objects")
            return manifest.replace(old, wanted)

        def is_in(newer: Manifest) -> bool:
            return set(outputs) <= newer.names()

        if not await history.commit(log, change, is_in, outputs):
            return 0
        logger.info("reclaimed", folder=log.folder, objects=len(wanted))
        return len(wanted)


async def forget(log: Log, ended: Collection[int]) -> int:
    """Let go of lanes that have ended and of which nothing is left; gives how many there were."""
    async with log.busy_with_history:
        if log.state is not State.OPEN:
            return 0
        gone = log.manifest.lanes.keys() - manifest.forget_lanes(log.manifest, ended).lanes.keys()
        in_tail = {span.lane for row in log.tail for span in row.entry.spans()}
        gone = {lane for lane in gone - in_tail if not len(log.lane(lane).watchers)}
        if not gone:
            return 0

        def change(old: Manifest) -> Manifest:
            return manifest.forget_lanes(old, gone)

        if not await history.commit(log, change, lambda newer: not gone & newer.lanes.keys()):
            return 0
        for lane in gone:
            log.lanes.pop(lane, None)
        return len(gone)


def is_worth_it(entry: Entry, lanes: Mapping[int, LaneMark], ended: Collection[int]) -> bool:
    """Whether an object has something alive, and enough, or something urgent, that is not."""
    dead = [span for span in entry.spans() if not is_alive(span, lanes)]
    if len(dead) in (0, len(entry.spans())):
        return False  # nothing to gain, or gone as a whole before long
    is_urgent = any(span.lane in ended for span in dead)
    return is_urgent or HALF * sum(span.length for span in dead) >= entry.size


def is_alive(span: Span, lanes: Mapping[int, LaneMark]) -> bool:
    """Whether anybody may still read any of it."""
    return span.lane not in lanes or span.last >= lanes[span.lane].start


async def _without_the_dead(log: Log, entry: Entry) -> Entry:
    key = f"{log.folder}/{entry.name}"
    data = await commits.persist(lambda: log.store.read(key), "reclaiming")
    if segment.parse(data).content_id != entry.content_id:
        raise CorruptObject(f"{key} is not the object that was committed")
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
        if is_alive(span, log.manifest.lanes)
    ]
    return await history.write_anew(log, entry.base, entry.end, alive)
