"""Brokers lose leases, leave and come back under writers and readers: every promise is checked."""

import asyncio
import os
import random

import pytest

from kafscale.model.errors import KafscaleError, OffsetOutOfRange
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import values_of
from tests.unit.engine.fleet_harness import FleetHarness, Member, with_topic

SEEDS = range(int(os.environ.get("STORM_SEEDS", "3")))
BROKERS = 3
PARTITIONS = 6
STORM_S = 2.5


class Storm:
    """Writers, a reader and bad luck on one fleet."""

    def __init__(self, fleet: FleetHarness, seed: int) -> None:
        self.fleet = fleet
        self.dice = random.Random(seed)
        self.is_over = False
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.complaints: list[str] = []

    def any_member(self) -> Member:
        return self.dice.choice(self.fleet.members)

    def leader(self, partition: int) -> Member | None:
        """The leader that some broker names; the broker may be wrong."""
        asked = self.any_member()
        topic = asked.engine.topics.find("t")
        who = -1 if topic is None else asked.fleet.leader_of(topic.folder(partition))
        found = [member for member in self.fleet.members if member.fleet.identity.broker_id == who]
        return found[0] if found else None

    async def write(self, partition: int) -> None:
        number = 0
        while not self.is_over:
            number += 1
            value = b"%d-%d" % (partition, number)
            leader = self.leader(partition)
            try:
                if leader is not None:
                    offset = await leader.append("t", partition, value)
                    if (partition, offset) in self.acknowledged:
                        self.complaints.append(f"{partition}: offset {offset} given twice")
                    self.acknowledged[partition, offset] = value
            except KafscaleError:
                pass  # the record may be there or not: no broker acknowledged it
            await asyncio.sleep(self.dice.random() * 0.01)

    async def watch(self, partition: int) -> None:
        """The high watermark that clients are shown never goes back."""
        highest = 0
        while not self.is_over:
            leader = self.leader(partition)
            if leader is not None and leader.engine.topics.find("t"):
                promised = max(
                    (offset + 1 for at, offset in self.acknowledged if at == partition), default=0
                )
                part = await leader.read("t", partition, offset=highest)
                if isinstance(part.error, OffsetOutOfRange):
                    self.complaints.append(f"{partition}: {part.error}, {highest} was seen")
                elif part.error is None:
                    if part.high < max(highest, promised):
                        self.complaints.append(
                            f"{partition}: high {part.high} after {highest}, {promised} promised"
                        )
                    highest = max(highest, part.high)
            await asyncio.sleep(self.dice.random() * 0.01)

    async def strike(self) -> None:
        while not self.is_over:
            await asyncio.sleep(self.dice.random() * 0.3)
            member = self.any_member()
            match self.dice.randrange(3):
                case 0:  # leaves and comes back
                    if len(self.fleet.members) > 1:
                        self.fleet.members.remove(member)
                        await member.broker.stop()
                        await asyncio.sleep(self.dice.random() * 0.2)
                        self.slow_down(await self.fleet.start(member.fleet_id))
                case 1:  # its lease ends behind its back
                    for lease in member.wire.leases[-1:]:
                        await lease.revoke()
                case 2:  # cut off for a while
                    member.wire.is_cut = True
                    await asyncio.sleep(self.dice.random() * 0.2)
                    member.wire.is_cut = False

    def slow_down(self, member: Member) -> None:
        """Let uploads take time, and answers be lost, so that everything happens in between."""
        member.plan.add(Rule(Fault.FAIL_AFTER, "put_new", "*.kfs", chance=0.05))
        member.plan.add(Rule(Fault.DELAY, "put_new", "*.kfs", chance=0.5, delay_s=0.03))

    async def rage(self) -> None:
        for member in self.fleet.members:
            self.slow_down(member)
        async with asyncio.TaskGroup() as all_at_once:
            for partition in range(PARTITIONS):
                all_at_once.create_task(self.write(partition))
                all_at_once.create_task(self.watch(partition))
            all_at_once.create_task(self.strike())
            await asyncio.sleep(STORM_S)
            self.is_over = True

    async def check(self) -> None:
        await self.fleet.agree()
        for partition in range(PARTITIONS):
            owner = self.fleet.owner("t", partition)
            topic = owner.engine.topics.get("t")
            start, high, _ = await owner.engine.partitions.bounds(topic, partition, -1)
            found: list[bytes | None] = []
            while len(found) < high - start:
                found += values_of(await owner.read("t", partition, offset=len(found)))
            for (at, offset), value in self.acknowledged.items():
                if at == partition and (offset >= high or found[offset] != value):
                    self.complaints.append(f"{partition}: {value!r} is not at {offset}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_doubled_or_taken_back_when_brokers_come_and_go(
    fleet: FleetHarness, seed: int
) -> None:
    await with_topic(fleet, BROKERS, PARTITIONS)
    storm = Storm(fleet, seed)
    await storm.rage()
    await storm.check()
    assert storm.complaints == []
    assert len(storm.acknowledged) > 50
