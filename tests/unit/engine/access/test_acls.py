"""Access control lists in the metadata store: created, found, deleted, known to every broker."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kafscale.access.acls import AclBinding, AclFilter, PatternType, Permission
from kafscale.engine.access.acls import AclRules, Acls
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.model.errors import CorruptObject, InvalidAcl, MetadataUnavailable
from kafscale.model.security.access import AccessOperation, Principal, ResourceType
from kafscale.testing.clock import ManualClock
from kafscale.testing.simulated.metadata import SimulatedEtcd, SimulatedMetadataStore

ALICE = Principal("User", "alice")
READ, TOPIC = AccessOperation.READ, ResourceType.TOPIC


def binding(name: str, permission: Permission = Permission.ALLOW) -> AclBinding:
    return AclBinding(TOPIC, PatternType.LITERAL, name, ALICE, "*", READ, permission)


def may_read(acls: Acls, name: str) -> bool:
    return acls.authorizer.allows(ALICE, "10.0.0.1", READ, TOPIC, name)


class Brokers:
    def __init__(self) -> None:
        self.etcd = SimulatedEtcd()
        self.lines = [SimulatedMetadataStore(self.etcd, ManualClock()) for _ in range(2)]
        self.acls = [Acls(line, AclRules()) for line in self.lines]


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    two = Brokers()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(acls.run()) for acls in two.acls]
        await asyncio.sleep(1)
        yield two
        for task in running:
            task.cancel()


async def test_what_one_broker_is_told_every_broker_decides_by(brokers: Brokers) -> None:
    ours, theirs = brokers.acls
    assert not may_read(theirs, "t")
    await ours.create([binding("t")])
    assert may_read(ours, "t")
    await asyncio.sleep(1)
    assert may_read(theirs, "t")
    assert await theirs.delete([AclFilter(name="t"), AclFilter(name="other")]) == [
        [binding("t")],
        [],
    ]
    assert not may_read(theirs, "t")
    await asyncio.sleep(1)
    assert not may_read(ours, "t")


async def test_the_last_known_lists_count_while_the_store_is_away(brokers: Brokers) -> None:
    ours, theirs = brokers.acls
    await ours.create([binding("t"), binding("secret", Permission.DENY)])
    await asyncio.sleep(1)
    brokers.lines[1].is_cut = True
    await ours.delete([AclFilter()])
    await asyncio.sleep(60)
    assert may_read(theirs, "t")
    assert not may_read(theirs, "secret")
    assert not may_read(theirs, "unknown")
    with pytest.raises(MetadataUnavailable):
        await theirs.create([binding("more")])
    assert not may_read(theirs, "more")
    brokers.lines[1].is_cut = False
    await asyncio.sleep(1)
    assert not may_read(theirs, "t")


async def test_a_broker_deletes_what_another_has_just_created(brokers: Brokers) -> None:
    ours, theirs = brokers.acls
    brokers.etcd.faults.latency_s = 0.5  # the watch has not told yet
    await ours.create([binding("t")])
    assert await theirs.delete([AclFilter()]) == [[binding("t")]]


async def test_lists_survive_a_restart_and_an_unreadable_one_prevents_it(brokers: Brokers) -> None:
    ours, _ = brokers.acls
    odd = binding('a/b "c" ü*')
    await ours.create([odd, binding("t")])
    again = Acls(brokers.lines[0], AclRules())
    await again.load()
    assert again.select(AclFilter()) == [odd, binding("t")]
    brokers.etcd.commit([Put(f"{keys.ACLS}TOPIC/x", b'{"resource_type": "TOPIC"}')], [])
    with pytest.raises(CorruptObject, match="TOPIC/x"):
        await Acls(brokers.lines[0], AclRules()).load()
    await asyncio.sleep(1)
    assert may_read(ours, "t"), "a broker that runs goes on with what it knows"


async def test_a_binding_is_stored_once_and_invalid_ones_not_at_all(brokers: Brokers) -> None:
    ours, _ = brokers.acls
    await ours.create([binding("t"), binding("t")])
    await ours.create([binding("t")])
    assert len(brokers.etcd.list(keys.ACLS).entries) == 1
    with pytest.raises(InvalidAcl):
        await ours.create([binding("u"), binding("")])
    assert ours.select(AclFilter()) == [binding("t")]
