"""An engine on objects in memory that fail on demand, and a clock the test holds."""

import tempfile
from pathlib import Path
from typing import Any

from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.engine import Engine, EngineParts
from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.groups.events import Tick
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.lease import Lease
from kafscale.metadata.store import Entry, MetadataStore, Watch
from kafscale.model.errors import MetadataUnavailable
from kafscale.objects.memory import MemoryObjectStore
from kafscale.records.batch import walk
from kafscale.records.record import open_batch
from kafscale.settings.config import Config
from kafscale.testing.clock import ManualClock, SeededDice
from kafscale.testing.faulty_store import FaultPlan, FaultyObjectStore
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.unit.gateways.kafka.caller import NOW_MS, make_batch


class FaultyMetadata:
    """Passes everything through; `lose_answers` commits still happen but are not heard of."""

    def __init__(self, inner: MetadataStore) -> None:
        self.inner = inner
        self.refuse_commits = 0
        self._let_through = -1
        self.lose_answers = 0

    async def get(self, key: str) -> Entry | None:
        return await self.inner.get(key)

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        return await self.inner.find(prefix, after=after, limit=limit)

    def refuse_after(self, commits: int) -> None:
        """Let that many commits through and refuse the one behind them."""
        self._let_through = commits

    async def commit(self, writes: Any, guards: Any = ()) -> int:
        if self._let_through >= 0:
            self._let_through -= 1
            if self._let_through < 0:
                raise MetadataUnavailable("planned: not done")
        if self.refuse_commits:
            self.refuse_commits -= 1
            raise MetadataUnavailable("planned: not done")
        version = await self.inner.commit(writes, guards)
        if self.lose_answers:
            self.lose_answers -= 1
            raise MetadataUnavailable("planned: done, the answer was lost")
        return version

    async def lease(self, ttl_s: float) -> Lease:
        return await self.inner.lease(ttl_s)

    def watch(self, prefix: str) -> Watch:
        return self.inner.watch(prefix)

    async def aclose(self) -> None:
        await self.inner.aclose()


class EngineHarness:
    """A broker without clients. Use with `async with`; `reopen` is a restart."""

    def __init__(self, config: Config = FOR_TESTS) -> None:
        self.clock = ManualClock(NOW_MS)
        self.plan = FaultPlan()
        self.objects = MemoryObjectStore(self.clock.now_ms)
        self.store = FaultyObjectStore(self.objects, self.plan)
        self._folder = tempfile.TemporaryDirectory(prefix="kafscale-engine-")
        self.metadata = FaultyMetadata(
            EmbeddedMetadataStore(Path(self._folder.name) / "metadata.db", "OFF")
        )
        self._dice = SeededDice(7)
        self._config = config
        self._broker: InProcessBroker | None = None

    async def __aenter__(self) -> "EngineHarness":
        self._broker = await InProcessBroker(
            config=self._config,
            store=self.store,
            metadata=self.metadata,
            clock=self.clock,
            dice=self._dice,
        ).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.plan.clear()
        await self.broker.stop()
        await self.metadata.aclose()
        self._folder.cleanup()

    async def reopen(self) -> None:
        """Stop the broker and start it on the same objects and metadata."""
        await self.broker.restart()

    @property
    def broker(self) -> InProcessBroker:
        assert self._broker is not None
        return self._broker

    @property
    def engine(self) -> Engine:
        return self.broker.engine

    @property
    def parts(self) -> EngineParts:
        """What the engine is made of, beyond what the doors get."""
        return self.engine._parts

    async def append(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        timestamp_ms: int = NOW_MS,
        **fields: int,
    ) -> int:
        """Append a batch and wait until it is committed; gives its first offset."""
        found = self.engine.topics.get(topic)
        await self.parts.logs.open(found, partition)
        records = memoryview(bytearray(make_batch(*values, timestamp_ms=timestamp_ms, **fields)))
        stored = self.engine.partitions.append(found, partition, records, acknowledged=False)
        committed = stored.appended.committed
        problem = None if committed is None else await committed
        if problem is not None:
            raise problem
        return stored.first

    async def read(self, topic: str, offset: int = 0, partition: int = 0) -> ReadResult:
        """One partition's part of a fetch that does not wait."""
        wanted = PartitionRead(self.engine.topics.get(topic), partition, offset, 1 << 20)
        (part,) = await self.engine.partitions.fetch([wanted], 1 << 20, 0, 0.0)
        return part

    async def keys(self, folder: str = "default") -> list[str]:
        """All objects below a folder."""
        return [row.key for row in await self.objects.find(folder)]


def values_of(part: ReadResult) -> list[bytes | None]:
    """The values in a part."""
    return [
        record.value
        for piece in part.batches
        for at, header in walk(piece)
        for record in open_batch(piece[at : at + header.size], 1 << 20)
    ]


def tick_groups(groups: Groups) -> None:
    """Let every group in memory handle the time that has passed, as its timer would."""
    for group in list(groups._loaded.values()):
        groups._handle(group, Tick())
