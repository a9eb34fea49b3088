"""Which compacted topics wait for the pipeline, because brokers find them too large.

Here: what the bucket says, by the rules that brokers follow. A broker is not asked.
Next door: the doctor, which names them (diagnosis.py). Never here: writing.
"""

from typing import NamedTuple

from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.formats import places
from kafscale.log.formats.manifest import Manifest
from kafscale.log.protocol import commits
from kafscale.log.upkeep import cleanable
from kafscale.log.upkeep.cleanable import CompactedLanes, CompactionLimits
from kafscale.model.errors import LogEnded
from kafscale.model.topics import TopicDefaults, TopicSettings
from kafscale.objects.store import ObjectStore


class CompactionBacklog(NamedTuple):
    """The compacted topics of a namespace."""

    topics: int
    too_large: dict[str, int]  # those with logs for the pipeline, and their new bytes


async def read_backlog(
    store: ObjectStore, namespace: str, defaults: TopicDefaults, limits: CompactionLimits
) -> CompactionBacklog:
    """Look at the newest manifest of every log of a compacted topic."""
    now_ms = await store.now_ms()
    pasts: dict[str, Manifest] = {}
    count, too_large = 0, dict[str, int]()
    for topic in await Descriptors(store, namespace).all():
        settings = TopicSettings.of(topic.configs, defaults)
        if not settings.compacted:
            continue
        count += 1
        for folder in places.log_folders(topic):
            if folder not in pasts:
                pasts[folder] = await _read_past(store, folder)
            lanes = CompactedLanes(settings, list(places.lanes_in(topic, folder)))
            part = cleanable.find_cleanable(pasts[folder], [lanes], now_ms, only_new=True)
            if part is not None and cleanable.is_too_large(part, limits):
                too_large[topic.name] = too_large.get(topic.name, 0) + part.dirty_bytes
    return CompactionBacklog(count, too_large)


async def _read_past(store: ObjectStore, folder: str) -> Manifest:
    try:
        return await commits.read_newest(store, folder)
    except LogEnded:  # its topic has been deleted meanwhile
        return commits.empty_manifest()
