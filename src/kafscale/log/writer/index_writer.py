"""Writing the index of a segment beside it.

Here: an index is a hint. Nobody waits for it, and one that is missing is rebuilt by whoever reads.
Next door: what is in it (index.py), the segment itself (log.py).
"""

from collections.abc import Sequence

import structlog

from kafscale.log.formats import index, keys
from kafscale.log.formats.manifest import Entry
from kafscale.model.errors import StoreError
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()


async def write(
    store: ObjectStore,
    folder: str,
    entry: Entry,
    pieces: Sequence[Sequence[memoryview]],
    interval_bytes: int,
) -> None:
    """Put the index of a flush that was just committed, once."""
    found = index.of_pieces(entry.spans(), pieces, interval_bytes)
    key = keys.index_of(f"{folder}/{entry.name}")
    try:
        await store.put_new(key, [index.encode(found)])
    except StoreError as problem:
        logger.info("index_not_written", key=key, error=str(problem))
