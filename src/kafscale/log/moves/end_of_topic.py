"""Ending what a deleted topic has written to, before its name may be used again.

Here: rule 25 of the log protocol. A broker that has not heard of the deletion still takes the log
for its own, and a client that knows only the name would be told that its record is stored. So the
logs themselves are closed, by whoever wants the name, whatever their owners know or believe: logs
of the topic's own by last manifests and an object at the tail, lanes of shared logs by seals.
Next door: seals of topics that move (moving.py), when the objects go
(engine/upkeep/housekeeping.py).

The first of the two last manifests tells everybody who opens the log, or has not looked for long;
the object at the tail takes the name that an owner with a fresh proof would create next. The
second says that both are there, so that nobody has to look again.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from typing import Final, NamedTuple

import structlog

from kafscale.log.formats import keys, manifest, places, segment
from kafscale.log.formats.manifest import Manifest
from kafscale.log.formats.producers import SEALER
from kafscale.log.formats.segment import LaneBatches
from kafscale.log.protocol import commits, survey
from kafscale.log.writer.job_appender import Appender
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import NotTheOwner, ObjectMissing
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore, StoredObject
from kafscale.records import batch
from kafscale.records.control import control_batch

logger = structlog.get_logger()

REMEMBERED_S: Final = 86_400.0  # how late a broker may hear that a topic is gone
_AUTHOR: Final = "end"
_PATIENCE_S: Final = 2.0  # for owners of shared logs, who seal without losing a race
_PAUSE_S: Final = 0.05
_INTERVAL_BYTES: Final = 4096


class Tools(NamedTuple):
    """What ending needs."""

    store: ObjectStore
    clock: Clock
    dice: Dice


async def end_topic(tools: Tools, gone: TopicDescriptor) -> None:
    """Make sure that nobody can commit anything more to a deleted topic."""
    await survey.gathered(_endings(tools, gone))


def has_lanes(gone: TopicDescriptor) -> bool:
    """Whether a topic has anything in logs that go on without it."""
    return bool(gone.shared or (gone.moving and gone.moving.shared))


def _endings(tools: Tools, gone: TopicDescriptor) -> Iterator[Awaitable[None]]:
    homes = [gone] if gone.moving is None else [gone, gone.after_move()]
    for home in homes:
        for folder in places.own_folders(home):
            yield end_log(tools.store, folder)
        if home.layout == "shared":
            for folder in places.log_folders(home):
                yield end_lanes(tools, folder, sorted(places.lanes_in(home, folder)))


# -- a log of the topic's own ------------------------------------------------------------------


async def end_log(store: ObjectStore, folder: str) -> None:
    """Close a log for ever, whoever writes it."""

    async def newest() -> int:
        return await commits.newest_generation(store, folder)

    if await commits.persist(newest, "end") == keys.ENDED:
        return
    await _put_last(store, folder, keys.ENDING)
    while not await commits.persist(lambda: _take_the_tail(store, folder), "end"):
        continue
    await _put_last(store, folder, keys.ENDED)


async def _put_last(store: ObjectStore, folder: str, generation: int) -> None:
    last = Manifest(generation=generation, commit_id="", created_ms=0, author=_AUTHOR, end=0)
    await commits.put_same(
        store, keys.manifest(folder, generation), [manifest.encode(last)], "last manifest"
    )


async def _take_the_tail(store: ObjectStore, folder: str) -> bool:
    """Create the name that comes next in the chain; False if somebody else was first.

    Looks twice, as whoever opens a log (rule 1): a manifest that has come meanwhile may end beyond
    what was found, and what lay between may be deleted already.
    """
    generation = await _newest_before_the_end(store, folder)
    try:
        past = await commits.read_generation(store, folder, generation)
        flushes = await _flushes(store, folder, past.end)
        at = await _end_of(store, flushes[-1]) if flushes else past.end
    except ObjectMissing:
        return False
    if at is not None and not await commits.put_same(
        store, keys.segment(folder, at), [segment.THE_END], "end of a log"
    ):
        return False
    return await _newest_before_the_end(store, folder) == generation


async def _newest_before_the_end(store: ObjectStore, folder: str) -> int:
    found = await store.find(
        folder, after=keys.manifest(folder, 0), before=keys.manifest(folder, keys.ENDING)
    )
    return max((keys.parse_generation(row.key) or 0 for row in found), default=0)


async def _flushes(store: ObjectStore, folder: str, base: int) -> list[StoredObject]:
    """What may belong to the chain from `base` on, in its order."""
    found = await store.find(
        folder, after=keys.segments_from(folder, base), before=keys.segments_before(folder)
    )
    return [row for row in found if keys.is_flush(row.key)]


async def _end_of(store: ObjectStore, last: StoredObject) -> int | None:
    """The position after a segment; None if it is the end already."""
    if last.size < segment.SMALLEST:
        return None
    foot = await store.read(last.key, last.size - segment.FOOTER.size)
    _, position, magic = segment.FOOTER.unpack_from(foot)
    if magic != segment.END_MAGIC:
        # Nobody who opens the log gets beyond it.
        logger.error("tail_unreadable", key=last.key)
        return None
    return int(position) + 1


async def remains(
    store: ObjectStore, folder: str, grace_s: float, *, is_new: bool
) -> list[StoredObject]:
    """What may be deleted now of a log that nobody needs any more; it is ended first.

    `is_new`: it may have an owner even if nothing is there. Until the end is a grace period old
    nobody may find a name of the chain free (rule 9): an owner whose proof is fresh would create
    it. From then on the last manifests are enough, for as long as anybody may hear late.
    """
    listed = await store.find(folder)
    ended = keys.manifest(folder, keys.ENDED)
    if (listed or is_new) and all(row.key != ended for row in listed):
        await end_log(store, folder)
        listed = await store.find(folder)
    now_ms = await store.now_ms()
    age_ms = max((now_ms - row.modified_ms for row in listed if row.key == ended), default=0)
    if age_ms >= max(REMEMBERED_S, 2 * grace_s) * 1000:
        return listed
    return [
        row
        for row in listed
        if not keys.is_last(row.key) and (age_ms >= grace_s * 1000 or not keys.is_flush(row.key))
    ]


# -- lanes of logs that go on ------------------------------------------------------------------


async def end_lanes(tools: Tools, folder: str, lanes: Sequence[int]) -> None:
    """Wait until the owner has sealed these lanes of a log; else do it beside the owner."""
    store, clock, dice = tools
    log = Appender(store, folder, clock, dice, author=_AUTHOR, index_interval_bytes=_INTERVAL_BYTES)
    await log.open()
    begun_s = clock.elapsed_s()
    while unsealed := [lane for lane in lanes if not log.is_sealed(lane)]:
        if clock.elapsed_s() - begun_s < _PATIENCE_S:
            await asyncio.sleep(_PAUSE_S)
        else:
            try:
                await log.append([_seal(log, lane, clock.now_ms()) for lane in unsealed])
                continue
            except (commits.LostRace, NotTheOwner):
                pass  # somebody has written, or sealed: look again
        await log.follow()


def _seal(log: Appender, lane: int, now_ms: int) -> LaneBatches:
    made = memoryview(control_batch(now_ms, SEALER))
    at = log.next(lane)
    batch.stamp(made, at, log.epoch(lane))
    return LaneBatches(lane, at, at, 1, now_ms, now_ms, [made])
