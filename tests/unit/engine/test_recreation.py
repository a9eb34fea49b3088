"""A name that is used again while some broker has not heard that its first topic is gone."""

from collections.abc import Mapping

import pytest

from kafscale.model.errors import KafscaleError
from tests.unit.engine.shop import values_of
from tests.unit.engine.squad import Mate, Squad, eventually

LAYOUTS: Mapping[str, Mapping[str, str | None]] = {
    "ordinary": {},
    "virtual": {"physical.partitions": "1"},
    "shared": {"storage.placement": "shared"},
}
ROUNDS = 3


async def late_owner(squad: Squad, configs: Mapping[str, str | None]) -> tuple[Mate, Mate]:
    """A broker that owns partition 0 of "t" and hears nothing of topics, and another one."""
    mates = await squad.start_all(2)
    await mates[0].engine.create_topic("t", 2, configs)
    await eventually(lambda: all(mate.engine.topics.find("t") for mate in mates))
    late = squad.owner("t", 0)
    (other,) = (mate for mate in mates if mate is not late)
    await late.append("t", 0, b"old life")
    late.wire.is_deaf = True
    return late, other


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_what_a_late_broker_acknowledges_is_in_the_new_topic(layout: str) -> None:
    async with Squad() as squad:
        late, other = await late_owner(squad, LAYOUTS[layout])
        for life in range(ROUNDS):
            await other.engine.delete_topic("t")
            await other.engine.create_topic("t", 2, LAYOUTS[layout])
            acknowledged = []
            for number in range(3):
                try:
                    await late.append("t", 0, f"{life} {number}".encode())
                    acknowledged.append(f"{life} {number}".encode())
                except KafscaleError:
                    pass
            late.wire.is_deaf = False
            new = other.engine.topics.get("t").topic_id
            await eventually(lambda: late.engine.topics.get("t").topic_id == new)
            owner = squad.owner("t", 0)
            assert values_of(await owner.read("t", 0)) == acknowledged
            late.wire.is_deaf = True
