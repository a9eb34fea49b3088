"""Checkpoints: groups, number marks and what is kept of access, copied to the bucket now and then.

Here: when a broker takes a checkpoint, and what is in it. One broker does it for all. It reads the
metadata store page by page, so the pages are not of one moment: every row was in the store at some
time while the checkpoint was taken.
Next door: the objects (log/catalog/checkpoints.py), reading them back
(admin/bucket/recovery.py).
Never here: topics and their settings. They are in the descriptors.
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

# Small enough that packing a block does not delay the broker's clients.
BLOCK_BYTES: Final = 256 << 10
PART_BYTES: Final = 4 << 20  # packed
_PAGE: Final = 500
_LEAVING_S: Final = 5.0
_PREFIXES: Final = (
    keys.CLUSTER,
    keys.MARKS,
    keys.BROKER_NAMES,
    keys.ACLS,
    keys.SCRAM,
    keys.DECOYS,
    keys.TOKENS,
    keys.QUOTAS,
    keys.GROUP_CONFIGS,
    keys.CONSUMERS,
    keys.SUBSCRIPTIONS,
)


@dataclass(slots=True)
class _Contents:
    """What the checkpoint will contain, most of it packed already."""

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
        is_responsible: Callable[[], bool],
    ) -> None:
        """`is_responsible`: whether this broker is the one that takes checkpoints."""
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
        self._good_s = clock.elapsed_s()  # when a checkpoint was last known to be complete
        self._is_responsible = is_responsible

    def age_s(self) -> float | None:
        """How long ago the newest checkpoint was complete; None if another broker takes them.

        A checkpoint that is old because nothing has changed counts as new each time that is seen.
        A broker that becomes responsible begins at zero.
        """
        return self._clock.elapsed_s() - self._good_s if self._is_responsible() else None

    async def run(self) -> None:
        """Take a checkpoint at each interval; runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self._write_or_warn(leaving=False)

    async def aclose(self) -> None:
        """Take a last checkpoint, unless the store is slow to answer."""
        try:
            async with asyncio.timeout(_LEAVING_S):
                await self._write_or_warn(leaving=True)
        except TimeoutError:
            logger.warning("checkpoint_not_written", error=f"no answer in {_LEAVING_S:.0f} s")

    async def _write_or_warn(self, *, leaving: bool) -> None:
        if not self._is_responsible():
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
            if await self._is_unchanged():
                self._good_s = began_s
                return None
            newest = await self._newest()
            if not await self._is_ours() or not await self._may_follow(newest, leaving):
                return None
            # Read after the look at the bucket: of two checkpoints the one with the higher number
            # was read later.
            contents = await self._collect()
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

    async def _is_unchanged(self) -> bool:
        """Whether the store still says what this broker wrote last; the bucket is not asked."""
        number, digest = self._written
        if not number or not await self._is_ours():
            return False
        return (await self._collect()).digest == digest

    async def _newest(self) -> tuple[int, StoredObject] | None:
        heads = await checkpoints.heads(self._store, self._namespace)
        return heads[-1] if heads else None

    async def _is_ours(self) -> bool:
        """Whether the metadata store is still the one this broker was started on.

        Checkpoints of a store that was emptied or replaced meanwhile must not displace those that
        the lost store can be rebuilt from.
        """
        entry = await self._metadata.get(keys.CLUSTER)
        cluster_id = keys.decode(keys.ClusterRow, entry.value).cluster_id if entry else "none"
        if cluster_id != self._cluster_id:
            self._complain("metadata_of_another_cluster", cluster_id)
        return cluster_id == self._cluster_id

    async def _may_follow(self, newest: tuple[int, StoredObject] | None, leaving: bool) -> bool:
        """Whether this broker may write the next checkpoint.

        Not right after another broker's, and never after one of another cluster: a broker that
        was started on an empty metadata store must not displace the checkpoints that the lost
        store can be rebuilt from.
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

    async def _collect(self) -> _Contents:
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
