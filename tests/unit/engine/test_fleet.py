"""Several brokers share logs and groups, give them to each other, and lose them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kafscale.model.errors import NotTheOwner
from tests.unit.engine.shop import values_of
from tests.unit.engine.squad import Squad, eventually


@pytest.fixture
async def squad() -> AsyncIterator[Squad]:
    async with Squad() as opened:
        yield opened


async def test_three_brokers_share_a_topic_and_know_whose_each_partition_is(squad: Squad) -> None:
    mates = await squad.start_all(3)
    await mates[0].engine.create_topic("t", 30, {})
    await eventually(lambda: all(mate.engine.topics.find("t") for mate in mates))
    owners = [squad.owner("t", partition) for partition in range(30)]
    assert {owner.fleet.identity.broker_id for owner in owners} == {0, 1, 2}
    for partition, owner in enumerate(owners):
        assert await owner.append("t", partition, b"x") == 0
        for other in mates:
            if other is not owner:
                with pytest.raises(NotTheOwner):
                    await other.append("t", partition, b"y")
    assert len({mate.fleet.controller_id() for mate in mates}) == 1


async def test_what_a_leaving_broker_had_is_served_by_the_others(squad: Squad) -> None:
    mates = await squad.start_all(3)
    await mates[0].engine.create_topic("t", 12, {})
    await eventually(lambda: all(mate.engine.topics.find("t") for mate in mates))
    for partition in range(12):
        await squad.owner("t", partition).append("t", partition, b"%d" % partition)
    await mates[1].broker.stop()
    squad.mates.remove(mates[1])
    await squad.agree()
    for partition in range(12):
        owner = squad.owner("t", partition)
        assert values_of(await owner.read("t", partition)) == [b"%d" % partition]
        assert await owner.append("t", partition, b"more") == 1
    await asyncio.sleep(0)
