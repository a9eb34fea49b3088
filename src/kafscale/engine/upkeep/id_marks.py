"""Ids that were given out are never given out again, even if the metadata store was lost.

Here: comparing the marks of the metadata store with the bucket when a broker starts. A metadata
store that was restored from an older backup, has lost its last commits with its machine, or was
lost before the first checkpoint, knows less than the bucket does. A producer that gets the id of
another one loses its first batches: the broker takes them for repetitions, acknowledges them and
stores nothing.
Next door: rebuilding all that such a store has lost (admin/bucket/recovery.py),
reading the bucket (log/catalog/bucket_scan.py).
"""

from functools import partial

import structlog

from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.log.catalog import bucket_scan, checkpoints
from kafscale.log.catalog.bucket_scan import SPARE_BROKER_IDS, SPARE_EPOCHS, SPARE_PRODUCER_IDS
from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put
from kafscale.model.clock import Clock
from kafscale.model.errors import MetadataConflict, StoreError
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()

# A store that has lost some ids may have lost more than the bucket knows of.
_SPARE = {
    keys.PRODUCER_IDS: SPARE_PRODUCER_IDS,
    keys.EPOCHS: SPARE_EPOCHS,
    keys.BROKER_IDS: SPARE_BROKER_IDS,
}


async def begin(
    metadata: MetadataStore, store: ObjectStore, namespace: str, clock: Clock
) -> ProducerIds:
    """Compare the marks before this broker takes an id; gives the source of producer ids.

    A broker that starts while the bucket does not answer uses what the metadata store knows. It
    compares before it gives out the first producer id.
    """
    compare = partial(keep_up, metadata, store, namespace, clock)
    try:
        await compare()
    except StoreError as problem:
        if await metadata.get(keys.CLUSTER) is None:
            raise
        logger.warning("numbers_not_compared", error=str(problem))
        return ProducerIds(metadata, before_first=compare)
    return ProducerIds(metadata)


async def keep_up(
    metadata: MetadataStore, store: ObjectStore, namespace: str, clock: Clock
) -> None:
    """Raise every mark that is behind what the bucket knows."""
    if await metadata.get(keys.CLUSTER) is None:
        # A new store and no checkpoint: only the logs can tell, if there are any.
        evidence = await bucket_scan.gather(store, namespace, clock)
        seen = {keys.PRODUCER_IDS: evidence.producer_id + 1, keys.EPOCHS: evidence.epoch}
    else:
        seen = {
            key: keys.decode(keys.Mark, bytes(value)).next
            for key, value in await checkpoints.first_rows(store, namespace)
            if key in _SPARE
        }
    for key, given in seen.items():
        await _raise(metadata, key, given)


async def _raise(metadata: MetadataStore, key: str, given: int) -> None:
    while True:
        entry = await metadata.get(key)
        now = keys.decode(keys.Mark, entry.value).next if entry else 0
        if now >= given:
            return
        mark = keys.Mark(next=given + _SPARE[key])
        try:
            await metadata.commit(
                [Put(key, keys.encode(mark))], [Compare(key, entry.version if entry else 0)]
            )
        except MetadataConflict:
            continue  # another broker that starts has raised it
        logger.warning("mark_was_behind", key=key, was=now, given_out=given, now=mark.next)
        return
