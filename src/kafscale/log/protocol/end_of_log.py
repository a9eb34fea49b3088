"""Ending one log, so that no writer can commit anything more to it (rule 25).

Here: the two last manifests, the object at the tail, and what may be deleted of a log that has
ended. The first last manifest tells every writer that opens the log, or whose proof is old. The
object at the tail takes the name that an owner with a fresh proof would create next. The second
last manifest says that both are there, so that no later caller has to look again.
Next door: which logs and lanes of a deleted topic end (moves/end_of_topic.py), when the objects go
(engine/upkeep/housekeeping.py).
"""

from typing import Final

import structlog

from kafscale.log.formats import keys, manifest, segment
from kafscale.log.formats.manifest import Manifest
from kafscale.log.protocol import commits
from kafscale.model.errors import ObjectMissing
from kafscale.objects.store import ObjectStore, StoredObject

logger = structlog.get_logger()

REMEMBERED_S: Final = 86_400.0  # how late a broker may hear that a topic is gone
AUTHOR: Final = "end"


async def end_log(store: ObjectStore, folder: str) -> None:
    """Close a log for all its writers; it cannot be opened again."""

    async def newest() -> int:
        return await commits.newest_generation(store, folder)

    if await commits.persist(newest, "end") == keys.ENDED:
        return
    await _put_last(store, folder, keys.ENDING)
    while not await commits.persist(lambda: _take_the_tail(store, folder), "end"):
        continue
    await _put_last(store, folder, keys.ENDED)


async def _put_last(store: ObjectStore, folder: str, generation: int) -> None:
    last = Manifest(generation=generation, commit_id="", created_ms=0, author=AUTHOR, end=0)
    await commits.put_same(
        store, keys.manifest(folder, generation), [manifest.encode(last)], "last manifest"
    )


async def _take_the_tail(store: ObjectStore, folder: str) -> bool:
    """Create the name that comes next in the chain; False if another writer was first.

    Lists twice, as in opening a log (rule 1): a manifest that has come meanwhile may end beyond
    what was found, and the objects between may be deleted already.
    """
    generation = await _newest_before_the_end(store, folder)
    try:
        past = await commits.read_generation(store, folder, generation)
        flushes = await _flushes(store, folder, past.end)
        end = await _end_of(store, flushes[-1]) if flushes else past.end
    except ObjectMissing:
        return False
    if end is not None and not await commits.put_same(
        store, keys.segment(folder, end), [segment.THE_END], "end of a log"
    ):
        return False
    return await _newest_before_the_end(store, folder) == generation


async def _newest_before_the_end(store: ObjectStore, folder: str) -> int:
    listed = await store.find(
        folder, after=keys.manifest(folder, 0), before=keys.manifest(folder, keys.ENDING)
    )
    return max((keys.parse_generation(stored.key) or 0 for stored in listed), default=0)


async def _flushes(store: ObjectStore, folder: str, base: int) -> list[StoredObject]:
    """What may belong to the chain from `base` on, in its order."""
    listed = await store.find(
        folder, after=keys.segments_from(folder, base), before=keys.segments_before(folder)
    )
    return [stored for stored in listed if keys.is_flush(stored.key)]


async def _end_of(store: ObjectStore, last: StoredObject) -> int | None:
    """The position after a segment; None if it is the end already."""
    if last.size < segment.SMALLEST:
        return None
    foot = await store.read(last.key, last.size - segment.FOOTER.size)
    _, position, magic = segment.FOOTER.unpack_from(foot)
    if magic != segment.END_MAGIC:
        # Opening the log fails at this object, so no writer gets beyond it.
        logger.error("tail_unreadable", key=last.key)
        return None
    return int(position) + 1


async def remains(
    store: ObjectStore, folder: str, grace_s: float, *, is_new: bool
) -> list[StoredObject]:
    """What may be deleted now of a log that is not needed any more; it is ended first.

    `is_new`: it may have an owner even if no object is there. Until the end is a grace period old,
    every name of the chain must stay taken (rule 9): an owner whose proof is fresh would create a
    free one. From then on the last manifests are enough, for as long as a broker may hear late.
    """
    listed = await store.find(folder)
    ended = keys.manifest(folder, keys.ENDED)
    if (listed or is_new) and all(stored.key != ended for stored in listed):
        await end_log(store, folder)
        listed = await store.find(folder)
    now_ms = await store.now_ms()
    age_ms = max(
        (now_ms - stored.modified_ms for stored in listed if stored.key == ended), default=0
    )
    if age_ms >= max(REMEMBERED_S, 2 * grace_s) * 1000:
        return listed
    return [
        stored
        for stored in listed
        if not keys.is_last(stored.key)
        and (age_ms >= grace_s * 1000 or not keys.is_flush(stored.key))
    ]
