"""Writing until the answer is definite, and committing manifests.

Here: repeating a PUT with identical bytes, telling our own object from another writer's; reading
the newest generation, writing the next, and finding out whether ours counts.
Next door: what to change (manifest.py), the changes (upkeep/).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
import structlog

from kafscale.log.formats import keys, manifest, segment
from kafscale.log.formats.manifest import Manifest
from kafscale.log.formats.segment import ContentId
from kafscale.model.buffers import Buffer
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import (
    KafscaleError,
    LogEnded,
    ObjectExists,
    ObjectMissing,
    StoreRefused,
    StoreUnavailable,
)
from kafscale.objects.store import ObjectStore
from kafscale.retry import Backoff, RetryPolicy

log = structlog.get_logger()

T = TypeVar("T")

RETRY = RetryPolicy(first_s=0.1, longest_s=10.0)


class LostRace(KafscaleError):
    """Another writer's generation made ours impossible: read again, plan anew."""


def empty_manifest() -> Manifest:
    """What stands in for the manifest of a log that has none."""
    return Manifest(generation=0, commit_id="", created_ms=0, author="", end=0)


async def persist(work: Callable[[], Awaitable[T]], what: str) -> T:
    """Repeat `work` until the store gives a definite answer, pausing longer each time."""
    backoff: Backoff | None = None
    while True:
        try:
            return await work()
        except (StoreUnavailable, StoreRefused) as problem:
            backoff = backoff or Backoff(RETRY)
            pause_s = backoff.next_s()
            log.warning("store_retry", what=what, error=str(problem), pause_s=pause_s)
            await asyncio.sleep(pause_s)


async def newest_generation(store: ObjectStore, folder: str, after: int = 0) -> int:
    """The newest generation beyond `after`; `after` itself if there is none.

    It is a LIST, never a GET of `after + 1`: that one may have been deleted already (rule 4).
    """
    listed = await store.find(
        folder, after=keys.manifest(folder, after), before=keys.manifests_before(folder)
    )
    return max((keys.parse_generation(stored.key) or 0 for stored in listed), default=after)


async def read_generation(store: ObjectStore, folder: str, generation: int) -> Manifest:
    """Read one manifest; generation 0 is the one before any. Raises LogEnded for the last ones."""
    if generation == 0:
        return empty_manifest()
    if generation >= keys.ENDING:
        raise LogEnded(f"{folder}: the topic has been deleted")
    return manifest.decode(await store.read(keys.manifest(folder, generation)))


async def read_newest(store: ObjectStore, folder: str) -> Manifest:
    """Read the newest manifest.

    Listed again after reading: between the two it may have been superseded and deleted, and a
    late PUT may have brought its name back with other contents.
    """
    while True:
        generation = await newest_generation(store, folder)
        try:
            newest = await read_generation(store, folder, generation)
        except ObjectMissing:
            continue
        if await newest_generation(store, folder, generation) == generation:
            return newest


async def put_same(store: ObjectStore, key: str, body: Sequence[Buffer], what: str) -> bool:
    """Create `key`, repeating identical bytes until the answer is definite; False if taken."""
    try:
        await persist(lambda: store.put_new(key, body), what)
    except ObjectExists:
        return False
    return True


async def is_stored(store: ObjectStore, key: str, content_id: ContentId) -> bool:
    """Rule 2: an object under our name is ours only if its content is, to the last byte."""

    async def read_id() -> ContentId | None:
        try:
            head = await store.read(key, 0, segment.HEADER.size)
            # One byte more than ours: a longer object must not pass for our own.
            foot = await store.read(
                key, content_id.size - segment.FOOTER.size, segment.FOOTER.size + 1
            )
        except ObjectMissing:
            return None
        if len(foot) < segment.FOOTER.size or len(head) < segment.HEADER.size:
            return None
        size = content_id.size - segment.FOOTER.size + len(foot)
        return segment.read_content_id(head, foot, size)

    return await persist(read_id, "read back") == content_id


async def commit(
    store: ObjectStore,
    folder: str,
    base: Manifest,
    change: Callable[[Manifest], Manifest],
    *,
    is_in: Callable[[Manifest], bool],
    author: str,
    clock: Clock,
    dice: Dice,
    outputs: Sequence[str] = (),
) -> Manifest:
    """Commit `change` and give back the manifest that contains it.

    `change` is applied to `base`, or to the manifest that has become newest since; it raises
    LostRace when it no longer fits. `is_in` tells whether a later generation contains the change.
    """
    commit_id = dice.token(16).hex()
    while True:
        ours = msgspec.structs.replace(
            change(base),
            generation=base.generation + 1,
            commit_id=commit_id,
            created_ms=clock.now_ms(),
            author=author,
        )
        key = keys.manifest(folder, ours.generation)
        if not await put_same(store, key, [manifest.encode(ours)], "manifest"):
            taken = await persist(lambda key=key: _read_or_none(store, key), "manifest")  # type: ignore[misc]
            if taken is None or taken.commit_id != commit_id:
                base = await persist(lambda: read_newest(store, folder), "manifest")
                if is_in(base):
                    return base
                await check_outputs(store, folder, base, outputs)
                continue
        # Created, now or by an attempt whose answer was lost. A name that had been deleted can be
        # created again, and the answer does not tell, so only the newest generation counts.
        newest = await persist(lambda: read_newest(store, folder), "manifest")
        if newest.commit_id == commit_id or is_in(newest):
            return newest
        raise LostRace(f"manifest {ours.generation} came after {newest.generation}")


async def _read_or_none(store: ObjectStore, key: str) -> Manifest | None:
    try:
        return manifest.decode(await store.read(key))
    except ObjectMissing:
        return None


async def check_outputs(
    store: ObjectStore, folder: str, newest: Manifest, outputs: Sequence[str]
) -> None:
    """Rule 7: name outputs in a later generation only if no process has dropped or deleted them."""
    condemned = {entry.name for entry in newest.dropped}
    for name in outputs:
        if name in condemned:
            raise LostRace(f"{name} was swept as an orphan")
        try:
            await persist(lambda name=name: store.read(f"{folder}/{name}", 0, 1), "output")  # type: ignore[misc]
        except ObjectMissing:
            raise LostRace(f"{name} is gone") from None
