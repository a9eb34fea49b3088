"""Several brokers in one process, on one object store and one metadata store."""

import asyncio
import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from kafscale.engine.cluster.fleet import Fleet
from kafscale.engine.engine import Engine, EngineParts
from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.metadata import keys
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.lease import Lease
from kafscale.metadata.store import Entry, MetadataStore, Watch
from kafscale.model.errors import MetadataUnavailable
from kafscale.objects.memory import MemoryObjectStore
from kafscale.settings.config import Config
from kafscale.settings.sections import BrokerSection, EtcdSection
from kafscale.testing.faulty_store import FaultPlan, FaultyObjectStore
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.support.virtual_time import clock_of_the_loop
from tests.unit.gateways.kafka.caller import make_batch

LEASE_S = 2.0
PATIENCE_S = 60.0


class Wire:
    """One broker's way to the metadata store, which a test can cut."""

    def __init__(self, inner: MetadataStore) -> None:
        self.inner = inner
        self.is_cut = False
        self.is_deaf = False  # what is watched of topics does not come through
        self.leases: list[Lease] = []

    def _check(self) -> None:
        if self.is_cut:
            raise MetadataUnavailable("cut by the test")

    async def get(self, key: str) -> Entry | None:
        self._check()
        return await self.inner.get(key)

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        self._check()
        return await self.inner.find(prefix, after=after, limit=limit)

    async def commit(self, writes: Any, guards: Any = ()) -> int:
        self._check()
        return await self.inner.commit(writes, guards)

    async def lease(self, ttl_s: float) -> Lease:
        self._check()
        lease = await self.inner.lease(ttl_s)
        self.leases.append(lease)
        return lease

    async def watch(self, prefix: str) -> Watch:
        async for news in self.inner.watch(prefix):
            while self.is_cut or (self.is_deaf and prefix == keys.TOPICS):
                await asyncio.sleep(0.01)
            yield news

    async def aclose(self) -> None:
        pass  # all brokers share the store


@dataclasses.dataclass
class Member:
    """One broker of the fleet."""

    broker: InProcessBroker
    wire: Wire
    plan: FaultPlan
    fleet_id: int

    @property
    def engine(self) -> Engine:
        return self.broker.engine

    @property
    def parts(self) -> EngineParts:
        """What the engine is made of, beyond what the doors get."""
        return self.engine._parts

    @property
    def fleet(self) -> Fleet:
        fleet = self.engine.cluster
        assert isinstance(fleet, Fleet)
        return fleet

    async def append(self, name: str, partition: int, *values: bytes) -> int:
        """Append a batch and wait until it is committed; gives its first offset."""
        topic = self.engine.topics.get(name)
        await self.parts.logs.open(topic, partition)
        records = memoryview(bytearray(make_batch(*values)))
        stored = self.engine.partitions.append(topic, partition, records, acknowledged=False)
        assert stored.appended.committed is not None
        problem = await stored.appended.committed
        if problem is not None:
            raise problem
        return stored.first

    async def read(self, name: str, partition: int, offset: int = 0, epoch: int = -1) -> ReadResult:
        topic = self.engine.topics.get(name)
        wanted = PartitionRead(topic, partition, offset, 1 << 20, epoch)
        (part,) = await self.engine.partitions.fetch([wanted], 1 << 20, 0, 0.0)
        return part


class FleetHarness:
    """Use with `async with`; brokers are started one by one."""

    def __init__(self, gather_s: float = 2.0) -> None:
        """`gather_s`: how long the controller gathers; tests in real time make it short."""
        self.objects = MemoryObjectStore()
        self._folder = tempfile.TemporaryDirectory(prefix="kafscale-fleet-")
        self.clock = clock_of_the_loop()
        self.metadata = EmbeddedMetadataStore(
            Path(self._folder.name) / "metadata.db", "OFF", self.clock
        )
        self.members: list[Member] = []
        self.lease_s = LEASE_S
        self._gather_s = gather_s

    async def __aenter__(self) -> "FleetHarness":
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self.members:
            member.plan.clear()
            member.wire.is_cut = member.wire.is_deaf = False
            await member.broker.stop()
        await self.metadata.aclose()
        self._folder.cleanup()

    async def start(self, broker_id: int, config: Config = FOR_TESTS) -> Member:
        wire, plan = Wire(self.metadata), FaultPlan()
        settings = msgspec.structs.replace(
            config,
            broker=BrokerSection(id=broker_id, port=0),
            etcd=EtcdSection(lease_ttl=self.lease_s, gather_time=self._gather_s),
        )
        broker = InProcessBroker(
            config=settings,
            store=FaultyObjectStore(self.objects, plan),
            metadata=wire,
            clock=self.clock,
            has_peers=True,
        )
        member = Member(await broker.start(), wire, plan, broker_id)
        self.members.append(member)
        return member

    async def start_all(self, count: int) -> list[Member]:
        members = [await self.start(number) for number in range(count)]
        await self.agree()
        return members

    def alive(self) -> list[Member]:
        return [
            member for member in self.members if not member.wire.is_cut and member.fleet.holds()
        ]

    async def agree(self) -> None:
        """Wait until all who are alive know the same settled members: exactly those alive."""
        await eventually(lambda: self._agree())

    def _agree(self) -> bool:
        alive = self.alive()
        ids = {member.fleet.identity.broker_id for member in alive}
        return len({member.fleet.generation for member in alive}) == 1 and all(
            member.fleet.state.is_settled
            and {row.broker_id for row in member.fleet.state.placement.brokers} == ids
            and member.fleet.state.is_member
            for member in alive
        )

    def owner(self, name: str, partition: int) -> Member:
        """The living broker that all others point to."""
        topic = self.alive()[0].engine.topics.get(name)
        folder = topic.folder(partition)
        (found,) = {member.fleet.leader_of(folder) for member in self.alive()}
        return next(member for member in self.alive() if member.fleet.identity.broker_id == found)


async def with_topic(fleet: FleetHarness, brokers: int, partitions: int) -> list[Member]:
    """Brokers that all know a topic "t"."""
    members = await fleet.start_all(brokers)
    await members[0].engine.topics.create("t", partitions, {})
    await eventually(lambda: all(member.engine.topics.find("t") for member in members))
    return members


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.01)
