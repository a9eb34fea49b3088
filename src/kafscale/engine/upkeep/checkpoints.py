"""Now and then, what groups have committed and which numbers were given out goes to the bucket.

Here: when a checkpoint is taken, by whom, and what is in it. One broker does it for all; it reads
the metadata store page by page, so that the pages are not of one moment: every row is one that
was there when the checkpoint was taken.
Next door: the objects (log/catalog/checkpoints.py), the way back (recovery.py).
Never here: topics and their settings. Descriptors say them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog
from crc32c import crc32c

from kafscale.log.catalog import checkpoints
from kafscale.log.catalog.checkpoints import PartBlocks
from kafscale.log.formats import checkpoint
from kafscale.log.formats.checkpoint import CheckpointHead, CheckpointRow
from kafscale.metadata import keys
from kafscale.metadata.store import Entry, MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import CorruptObject, KafscaleError, ObjectMissing
from kafscale.objects.store import ObjectStore, StoredObject

logger = structlog.get_logger()

# Small enough that packing a block does not keep the broker's clients waiting.
BLOCK_BYTES: Final = 256 << 10
PART_BYTES: Final = 4 << 20  # packed
_PAGE: Final = 500
_LEAVING_S: Final = 5.0
_PREFIXES: Final = (keys.CLUSTER, keys.MARKS, keys.BROKER_NAMES, keys.CONSUMERS)


@dataclass(slots=True)
class _Contents:
    """What a checkpoint will say, most of it packed already."""

    parts: list[PartBlocks] = field(default_factory=list)
    rows: list[CheckpointRow] = field(default_factory=list)
    row_bytes: int = 0
    groups: int = 0
    offsets: int = 0
    digest: int = 0

    def add(self, entry: Entry) -> None:
        key, value = entry.key, entry.value
        self.digest = crc32c(value, crc32c(key.encode(), self.digest))
        self.offsets += keys.is_offset(key)
        self.rows.append(checkpoint.row(key, value))
        self.row_bytes += len(key) + len(value)
        if self.row_bytes >= BLOCK_BYTES:
            self._pack()

    def _pack(self) -> None:
        if not self.parts or self.parts[-1].size >= PART_BYTES:
            self.parts.append(PartBlocks())
        self.parts[-1].add(checkpoint.encode_rows(self.rows), len(self.rows))
        self.rows, self.row_bytes = [], 0


class Checkpoints:
    """Takes checkpoints of one metadata store into one namespace of a bucket."""

    def __init__(
        self,
        metadata: MetadataStore,
        store: ObjectStore,
        namespace: str,
        clock: Clock,
        dice: Dice,
        *,
        cluster_id: str,
        author: str,
        interval_s: float,
    ) -> None:
        """Take none yet. Where there are several brokers `responsible` says whether it is us."""
        self._metadata = metadata
        self._store = store
        self._namespace = namespace
        self._clock = clock
        self._dice = dice
        self._cluster_id = cluster_id
        self._author = author
        self._interval_s = interval_s
        self._writing = asyncio.Lock()
        self._written = (0, -1)  # number and digest of the last one from here
        self._has_complained = False
        self._good_s = clock.elapsed_s()  # when a checkpoint said all there was, as far as we know
        self.responsible: Callable[[], bool] = lambda: True

    def age_s(self) -> float | None:
        """For how long no checkpoint may have said all there was; None where it is not our duty.

        One that is old because nothing has changed counts as new with every look. A broker whose
        duty it has become begins at nothing.
        """
        return self._clock.elapsed_s() - self._good_s if self.responsible() else None

    async def write_for_ever(self) -> None:
        """One look after the other."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self._write_or_warn(leaving=False)

    async def aclose(self) -> None:
        """Take a last one, unless the store keeps us waiting."""
        try:
            async with asyncio.timeout(_LEAVING_S):
                await self._write_or_warn(leaving=True)
        except TimeoutError:
            logger.warning("checkpoint_not_written", error=f"no answer in {_LEAVING_S:.0f} s")

    async def _write_or_warn(self, *, leaving: bool) -> None:
        if not self.responsible():
            self._good_s = self._clock.elapsed_s()
            return
        try:
            await self.write(leaving=leaving)
        except KafscaleError as problem:
            logger.warning("checkpoint_not_written", error=str(problem))

    async def write(self, *, leaving: bool = False) -> int | None:
        """Take a checkpoint if anything has changed since the last; gives its number."""
        async with self._writing:
            began_s = self._clock.elapsed_s()
            newest = await self._newest()
            if not await self._is_ours() or not await self._may_follow(newest, leaving):
                return None
            contents = await self._gather()
            number, digest = self._written
            if newest is not None and (newest[0], contents.digest) == (number, digest):
                self._good_s = began_s
                return None
            head = CheckpointHead(
                number=newest[0] + 1 if newest else 1,
                created_ms=self._clock.now_ms(),
                author=self._author,
                cluster_id=self._cluster_id,
                groups=contents.groups,
                offsets=contents.offsets,
                rows=contents.rows,
            )
            if not await checkpoints.write(
                self._store, self._namespace, head, contents.parts, self._dice
            ):
                return None  # another broker was faster
            self._written = head.number, contents.digest
            self._good_s = began_s
            logger.debug("checkpoint_written", number=head.number, offsets=head.offsets)
            await checkpoints.delete_old(self._store, self._namespace)
            return head.number

    async def _newest(self) -> tuple[int, StoredObject] | None:
        found = await checkpoints.heads(self._store, self._namespace)
        return found[-1] if found else None

    async def _is_ours(self) -> bool:
        """Whether the metadata store is still the one this broker was started on.

        One that was emptied or replaced meanwhile must not push out what it can be rebuilt from.
        """
        entry = await self._metadata.get(keys.CLUSTER)
        cluster_id = keys.decode(keys.ClusterRow, entry.value).cluster_id if entry else "none"
        if cluster_id != self._cluster_id:
            self._complain("metadata_of_another_cluster", cluster_id)
        return cluster_id == self._cluster_id

    async def _may_follow(self, newest: tuple[int, StoredObject] | None, leaving: bool) -> bool:
        """Whether ours may be the next: not right after another's, never after another cluster's.

        A broker that was started on an empty metadata store must not push out the checkpoints
        that the lost one can be rebuilt from.
        """
        if newest is None or newest[0] == self._written[0]:
            return True
        try:
            head = await checkpoints.read_head(self._store, self._namespace, newest[0])
        except (CorruptObject, ObjectMissing) as bad:
            logger.warning("checkpoint_unreadable", number=newest[0], error=str(bad))
            return True
        if head.cluster_id != self._cluster_id:
            self._complain("checkpoints_of_another_cluster", head.cluster_id)
            return False
        age_s = (await self._store.now_ms() - newest[1].modified_ms) / 1000
        if leaving or age_s >= self._interval_s / 2:
            return True
        self._good_s = max(self._good_s, self._clock.elapsed_s() - age_s)
        return False

    def _complain(self, event: str, cluster_id: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            logger.error(
                event,
                namespace=self._namespace,
                cluster_id=cluster_id,
                advice="stop, run `kafscale recover --from-bucket --force`, start again",
            )

    async def _gather(self) -> _Contents:
        contents = _Contents()
        group = ""
        async for entry in self._entries():
            try:
                contents.add(entry)
            except CorruptObject as bad:
                logger.error("row_left_out", key=entry.key, error=str(bad))
                continue
            if entry.key.startswith(keys.CONSUMERS):
                last, group = group, entry.key.split("/", 4)[3]
                contents.groups += group != last
        return contents

    async def _entries(self) -> AsyncIterator[Entry]:
        for prefix in _PREFIXES:
            after = ""
            while page := await self._metadata.find(prefix, after=after, limit=_PAGE):
                for entry in page:
                    if not keys.is_claim(entry.key):
                        yield entry
                after = page[-1].key
                await asyncio.sleep(0)  # there may be very many
