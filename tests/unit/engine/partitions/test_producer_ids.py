import asyncio

import pytest

from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.model.errors import InvalidRequest, MetadataUnavailable
from tests.unit.engine.engine_harness import EngineHarness


async def test_ids_never_repeat_over_restarts(harness: EngineHarness) -> None:
    seen = []
    for _ in range(4):
        seen += [await harness.engine.partitions.fresh_producer_id() for _ in range(3)]
        await harness.reopen()
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


async def test_ids_go_on_beyond_a_block(harness: EngineHarness) -> None:
    seen = [await harness.engine.partitions.fresh_producer_id() for _ in range(2500)]
    assert seen == list(range(seen[0], seen[0] + 2500))


async def test_two_brokers_never_give_out_the_same_id(harness: EngineHarness) -> None:
    one, other = ProducerIds(harness.metadata), ProducerIds(harness.metadata)
    found = await asyncio.gather(*(ids.fresh() for _ in range(1500) for ids in (one, other)))
    assert len(set(found)) == 3000


async def test_a_reservation_whose_answer_was_lost_is_never_used(harness: EngineHarness) -> None:
    ids = ProducerIds(harness.metadata)
    harness.metadata.lose_answers = 1
    with pytest.raises(MetadataUnavailable):
        await ids.fresh()
    assert await ids.fresh() == 1000
    assert await ProducerIds(harness.metadata).fresh() == 2000


async def test_the_last_id_is_below_two_to_the_62(harness: EngineHarness) -> None:
    mark = keys.Mark(next=2**62 - 500)
    await harness.metadata.commit([Put(keys.PRODUCER_IDS, keys.encode(mark))])
    with pytest.raises(InvalidRequest):
        await ProducerIds(harness.metadata).fresh()
