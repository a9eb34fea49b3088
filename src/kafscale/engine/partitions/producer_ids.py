"""Producer ids: never given twice, from blocks that are reserved in the metadata store."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put
from kafscale.model.errors import InvalidRequest, MetadataConflict, MetadataUnavailable, StoreError

_BLOCK: Final = 1000
_LARGEST: Final = (1 << 62) - 1


class ProducerIds:
    """Reserves a block at a time. After a crash the rest of a block is never used."""

    def __init__(
        self,
        metadata: MetadataStore,
        *,
        before_first: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`before_first` must succeed once before the first block is reserved."""
        self._metadata = metadata
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()
        self._before_first = before_first

    async def fresh(self) -> int:
        """An id that no producer had before."""
        async with self._reserving:
            if self._next >= self._end:
                await self._reserve()
            self._next += 1
            return self._next - 1

    async def _reserve(self) -> None:
        if self._before_first is not None:
            try:
                await self._before_first()
            except StoreError as problem:
                why = f"which producer ids were given out before is not known: {problem}"
                raise MetadataUnavailable(why) from problem
            self._before_first = None
        while True:
            entry = await self._metadata.get(keys.PRODUCER_IDS)
            begin = keys.decode(keys.Mark, entry.value).next if entry else 0
            if begin + _BLOCK > _LARGEST:
                raise InvalidRequest("all producer ids have been handed out")
            try:
                await self._metadata.commit(
                    [Put(keys.PRODUCER_IDS, keys.encode(keys.Mark(next=begin + _BLOCK)))],
                    [Compare(keys.PRODUCER_IDS, entry.version if entry else 0)],
                )
            except MetadataConflict:
                continue
            self._next, self._end = begin, begin + _BLOCK
            return
