"""Folders that a load left behind: found, condemned, and a grace period later deleted.

A folder whose id no topic names belongs to a load that runs, that died, or that lost its name to
another load; or to a topic that was deleted. If its youngest object is older than the grace
period, the sweep puts a mark into it: the folder is condemned. When the mark is as old, the sweep
deletes the folder. A load looks for the mark right before it makes its topic visible.
All ages are by the store's clock.
"""

from collections.abc import Set
from typing import Final

from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.formats import keys
from kafscale.log.protocol import commits
from kafscale.model.errors import KafscaleError
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket

GRACE_MS: Final = 24 * 3600 * 1000
CONDEMNED: Final = "condemned"
_AT_ONCE: Final = 1000
_CUT_FROM: Final = 200  # names of this length may have been cut: the topic cannot be told


class LoadLost(KafscaleError):
    """What was written for a topic is no longer whole: nothing became visible, load again."""


def sweep(bucket: Bucket, grace_ms: int = GRACE_MS) -> list[str]:
    """Condemn and delete abandoned folders; return those that were deleted."""
    return bucket.run(_sweep, bucket.namespace, grace_ms)


async def _sweep(store: ObjectStore, namespace: str, grace_ms: int) -> list[str]:
    gone = []
    now_ms = await store.now_ms()
    for name in await store.folders(namespace):
        topic, at, _ = keys.named_by(name).partition("@")
        if not at or not topic or len(topic) >= _CUT_FROM:
            continue
        folder = f"{namespace}/{name}"
        _, newest = await Descriptors(store, namespace).newest(topic)
        if newest is not None and not newest.deleted and _is_home(newest, folder):
            await _sweep_staged(store, folder, now_ms - grace_ms)
            continue
        objects = await store.find(folder)
        mark = next((row for row in objects if row.key == f"{folder}/{CONDEMNED}"), None)
        if mark is not None and mark.modified_ms < now_ms - grace_ms:
            await _delete(store, [row.key for row in objects if row is not mark])
            await store.delete([mark.key])
            gone.append(folder)
        elif mark is None and all(row.modified_ms < now_ms - grace_ms for row in objects):
            await commits.put_same(store, f"{folder}/{CONDEMNED}", [b"\n"], "condemnation")
    return gone


def _is_home(topic: TopicDescriptor, folder: str) -> bool:
    """Whether the topic lies in the folder, or moves there."""
    return folder in (topic.folder, topic.after_move().folder)


async def _sweep_staged(store: ObjectStore, folder: str, before_ms: int) -> None:
    """Delete what was staged for a topic that is visible now; a late task may have added some."""
    objects = await store.find(f"{folder}/staged")
    await _delete(store, [row.key for row in objects if row.modified_ms < before_ms])


async def check_whole(store: ObjectStore, folder: str, wanted: Set[str]) -> None:
    """Raise LoadLost unless all wanted objects are there and the folder is not condemned."""
    present = {row.key for row in await store.find(folder)}
    if f"{folder}/{CONDEMNED}" in present:
        raise LoadLost(f"{folder} was taken for abandoned: load again")
    if missing := wanted - present:
        raise LoadLost(f"{min(missing)} is gone: load again")


async def delete_below(store: ObjectStore, folder: str) -> None:
    """Delete every object below a folder."""
    await _delete(store, [row.key for row in await store.find(folder)])


async def _delete(store: ObjectStore, keys: list[str]) -> None:
    for at in range(0, len(keys), _AT_ONCE):
        await store.delete(keys[at : at + _AT_ONCE])
