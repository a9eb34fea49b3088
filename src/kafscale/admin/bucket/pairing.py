"""Whether a metadata store and a bucket belong together.

Here: what a broker requires before it starts, and what `kafscale doctor` reports.
Next door: rebuilding a metadata store from a bucket (admin/bucket/recovery.py).
"""

from typing import Final

import structlog

from kafscale.log.catalog import checkpoints
from kafscale.log.catalog.descriptors import Descriptors
from kafscale.metadata import keys
from kafscale.metadata.store import BEYOND, MetadataStore
from kafscale.model.errors import MetadataUnavailable, StoreError
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()

_TOPICS_LOOKED_FOR: Final = 3  # one of them might be about to be created or deleted


async def require_pair(metadata: MetadataStore, store: ObjectStore, namespace: str) -> None:
    """Raise MetadataUnavailable where the metadata store cannot be the bucket's.

    - A recovery has not ended: much would seem never to have existed.
    - The metadata store was never used, and the bucket has checkpoints: the broker would give out
      producer ids a second time, and take records of their new owners for repetitions.
    - The metadata store has topics that this namespace of the bucket never had: their logs would
      begin anew, at offset 0.
    """
    if await metadata.get(keys.RECOVERY) is not None:
        raise MetadataUnavailable(
            "the metadata store is half rebuilt: let `kafscale recover` finish, or run it again"
        )
    if await metadata.get(keys.CLUSTER) is None and await checkpoints.heads(store, namespace):
        raise MetadataUnavailable(
            f"the metadata store is empty and namespace {namespace} of the bucket has belonged to "
            "a cluster: rebuild what it knew with `kafscale recover --from-bucket`"
        )
    await _require_same_bucket(metadata, store, namespace)


async def _require_same_bucket(metadata: MetadataStore, store: ObjectStore, namespace: str) -> None:
    """Look for some of the topics in the bucket: it keeps the name even of one that was deleted."""
    descriptors = Descriptors(store, namespace)
    after = unknown = ""
    for _ in range(_TOPICS_LOOKED_FOR):
        entries = await metadata.find(keys.TOPICS, after=after, limit=1)
        name = keys.topic_named_by(entries[0].key) if entries else None
        if name is None:
            break
        try:
            if await descriptors.knows(name):
                return
        except StoreError as problem:
            # A broker may start without the bucket, and writes nothing until it is there.
            logger.warning("bucket_not_checked", error=str(problem))
            return
        unknown, after = name, keys.topic(name) + BEYOND
    if unknown:
        raise MetadataUnavailable(
            f"the metadata store has topic {unknown}, and namespace {namespace} of the bucket "
            "never had it: is it the right bucket? Every namespace needs its own metadata store"
        )
