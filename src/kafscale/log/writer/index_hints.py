"""The index of a committed flush: a hint beside its object.

Here: writing it once. Nothing waits for it, and a reader rebuilds one that is missing.
Next door: the log that commits the flush (log.py), the index itself (formats/index.py).
"""

from collections.abc import Sequence

import structlog

from kafscale.log.formats import index, keys
from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.writer.flush_queue import LanePart
from kafscale.model.errors import StoreError
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()


async def write(
    store: ObjectStore,
    folder: str,
    entry: SegmentEntry,
    parts: Sequence[LanePart],
    interval_bytes: int,
) -> None:
    """Put the index of a committed flush."""
    runs = [[pending.data for pending in part.batches] for part in parts]
    made = index.of_pieces(entry.spans(), runs, interval_bytes)
    key = keys.index_of(f"{folder}/{entry.name}")
    try:
        await store.put_new(key, [index.encode(made)])
    except StoreError as problem:
        logger.info("index_not_written", key=key, error=str(problem))
