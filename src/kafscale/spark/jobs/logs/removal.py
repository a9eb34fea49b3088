"""Deleting objects: what a log's rules allow, and what deleted topics have left behind.

Here: the pipeline as a deleter. Everything follows from one listing of the bucket by the rules of
log/upkeep/sweep.py; nothing is deleted from memory.
Next door: when (jobs/retain.py).
"""

from collections.abc import Sequence
from typing import Final

from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.formats import keys, manifest, places
from kafscale.log.formats.manifest import Manifest
from kafscale.log.formats.places import LanePlace
from kafscale.log.protocol import commits, end_of_log, survey
from kafscale.log.protocol.commits import LostRace
from kafscale.log.upkeep.sweep import SweepPlan, condemning, examine, is_pinned
from kafscale.model.errors import ObjectMissing
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.logs import selection

_DELETE_AT_ONCE: Final = 1000


def sweep_all(context: Context, grace_s: float) -> dict[str, int]:
    """Sweep every log of the chosen topics; gives the objects deleted."""
    folders = [row.folder for row in selection.chosen_logs(context)]
    bucket = context.bucket
    swept: dict[str, int] = {}

    async def sweep_log(store: ObjectStore, folder: str) -> None:
        swept[folder] = await _sweep(bucket, store, folder, grace_s)
        context.progress("sweeping", len(swept), len(folders), "")

    bucket.run(lambda store: survey.await_limited(sweep_log(store, folder) for folder in folders))
    return swept


def sweep(bucket: Bucket, folder: str, grace_s: float) -> int:
    """Delete what no reader can want any more (rules 9 and 10); gives the objects deleted."""
    return bucket.run(lambda store: _sweep(bucket, store, folder, grace_s))


async def _sweep(bucket: Bucket, store: ObjectStore, folder: str, grace_s: float) -> int:
    try:
        leftovers = await examine(store, folder, grace_s)
    except ObjectMissing:
        return 0  # another sweeper deleted a manifest while we looked
    if leftovers is None:
        return 0
    newest, plan = leftovers
    await _delete(store, plan.delete)
    on_the_list = {row.name for row in newest.dropped} & plan.gone
    if plan.orphans or on_the_list:
        await _put_down(bucket, store, folder, newest, plan)
    return len(plan.delete)


async def _put_down(
    bucket: Bucket, store: ObjectStore, folder: str, newest: Manifest, plan: SweepPlan
) -> None:
    """Condemn orphans, and take off the list what is gone."""
    condemn, is_condemned = condemning(plan.orphans)

    def is_in(newer: Manifest) -> bool:
        return is_condemned(newer) and not plan.gone & {row.name for row in newer.dropped}

    try:
        await commits.commit(
            store,
            folder,
            newest,
            lambda old: manifest.forget_dropped(condemn(old), plan.gone),
            is_in=is_in,
            author="pipeline",
            clock=bucket.clock,
            dice=bucket.dice,
        )
    except LostRace:
        return  # another writer committed a later one: the next sweep tries again


def count_sweep(bucket: Bucket, folder: str, grace_s: float) -> int:
    """How many objects a sweep would delete."""
    leftovers = bucket.run(examine, folder, grace_s)
    return 0 if leftovers is None else len(leftovers[1].delete)


def remove_deleted(context: Context, grace_s: float) -> dict[str, int]:
    """Delete own logs of topics that were deleted, or moved, a grace period ago; descriptors stay.

    Lanes of shared logs end instead (`ended_lanes`): nothing there goes by folder.
    """
    bucket = context.bucket
    removed: dict[str, int] = {}
    for topic in left_behind(context, grace_s):
        count = bucket.run(_remove, topic, grace_s)
        if count:
            removed[topic.folder] = count
    return removed


def ended_lanes(context: Context, grace_s: float) -> dict[str, frozenset[int]]:
    """Lanes of shared logs, by folder, whose topics were deleted or moved a grace period ago.

    The evidence is a descriptor in the bucket that names the lane and no longer holds, and nothing
    else: a lane without a claim may belong to a topic that is being created. What a topic claims
    that there is now has not ended, whatever else is written anywhere.
    """
    ended: dict[str, set[int]] = {}
    for topic in left_behind(context, grace_s):
        for place in lanes_of(topic):
            ended.setdefault(place.folder, set()).add(place.lane)
    # Read after the evidence: what was created meanwhile is seen here.
    for topic in context.bucket.topics() if ended else ():
        for place in {*lanes_of(topic), *lanes_of(topic.after_move())}:
            ended.get(place.folder, set()).discard(place.lane)
    return {folder: frozenset(lanes) for folder, lanes in ended.items() if lanes}


def lanes_of(topic: TopicDescriptor) -> list[LanePlace]:
    """A topic's lanes in logs that it shares."""
    if topic.layout != "shared":
        return []
    return [place for _, place in places.each_place(topic)]


def left_behind(context: Context, grace_s: float) -> list[TopicDescriptor]:
    """Every place that a topic has left by being deleted, or moved, a grace period ago.

    None if topics are named: what is gone has no name to choose it by.
    """
    if context.topics:
        return []
    bucket = context.bucket

    async def look(store: ObjectStore) -> list[TopicDescriptor]:
        now_ms = await store.now_ms()
        homes: list[TopicDescriptor] = []
        for name in await Descriptors(store, bucket.namespace).names():
            versions = await _versions(store, keys.descriptor_folder(bucket.namespace, name))
            rows = old_homes(versions)
            homes += [home for home, since_ms in rows if now_ms - since_ms >= grace_s * 1000]
        return homes

    return bucket.run(look)


async def _versions(store: ObjectStore, folder: str) -> list[tuple[TopicDescriptor, int]]:
    """Every descriptor of a name, the oldest first, and when it was written."""
    rows = await store.find(
        folder, after=keys.descriptor(folder, 0), before=keys.descriptors_before(folder)
    )
    return [(TopicDescriptor.decode(await store.read(row.key)), row.modified_ms) for row in rows]


def old_homes(
    versions: Sequence[tuple[TopicDescriptor, int]],
) -> list[tuple[TopicDescriptor, int]]:
    """Where topics of one name have been, or were going, and since when they are not any more.

    A home is told by its folder, which is never used again, also where its logs are others'.
    """
    homes: dict[str, TopicDescriptor] = {}
    left: dict[str, int] = {}
    for topic, written_ms in versions:
        for home in (topic.after_move(), topic):
            homes[home.folder] = home
        held = set() if topic.deleted else {topic.folder, topic.after_move().folder}
        for folder in homes:
            if folder in held:
                left.pop(folder, None)
            else:
                left.setdefault(folder, written_ms)
    return [(homes[folder], since_ms) for folder, since_ms in left.items()]


async def _remove(store: ObjectStore, home: TopicDescriptor, grace_s: float) -> int:
    """A folder is never used again (rule 11), so nothing of another topic can be met here.

    Snapshots of a topic that was deleted end with it; those of one that has moved are kept.
    """
    if home.layout == "shared":
        return 0
    count = 0
    now_ms = await store.now_ms()
    for folder in places.own_folders(home):
        listed = await store.find(folder)
        if not home.deleted and is_pinned((row.key for row in listed), now_ms):
            continue
        doomed = await end_of_log.remains(store, folder, grace_s, is_new=False)
        await _delete(store, [row.key for row in doomed])
        count += len(doomed)
    return count


async def _delete(store: ObjectStore, doomed: list[str]) -> None:
    for at in range(0, len(doomed), _DELETE_AT_ONCE):
        await store.delete(doomed[at : at + _DELETE_AT_ONCE])
