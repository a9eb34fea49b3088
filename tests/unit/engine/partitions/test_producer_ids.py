import asyncio

import pytest

from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.model.errors import InvalidRequest, MetadataUnavailable
from tests.unit.engine.engine_harness import Shop


async def test_ids_never_repeat_over_restarts(shop: Shop) -> None:
    seen = []
    for _ in range(4):
        seen += [await shop.engine.producer_ids.fresh() for _ in range(3)]
        await shop.reopen()
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


async def test_ids_go_on_beyond_a_block(shop: Shop) -> None:
    seen = [await shop.engine.producer_ids.fresh() for _ in range(2500)]
    assert seen == list(range(seen[0], seen[0] + 2500))


async def test_two_brokers_never_give_out_the_same_id(shop: Shop) -> None:
    one, other = ProducerIds(shop.metadata), ProducerIds(shop.metadata)
    found = await asyncio.gather(*(ids.fresh() for _ in range(1500) for ids in (one, other)))
    assert len(set(found)) == 3000


async def test_a_reservation_whose_answer_was_lost_is_never_used(shop: Shop) -> None:
    ids = ProducerIds(shop.metadata)
    shop.metadata.lose_answers = 1
    with pytest.raises(MetadataUnavailable):
        await ids.fresh()
    assert await ids.fresh() == 1000
    assert await ProducerIds(shop.metadata).fresh() == 2000


async def test_the_last_id_is_below_two_to_the_62(shop: Shop) -> None:
    mark = keys.Mark(next=2**62 - 500)
    await shop.metadata.commit([Put(keys.PRODUCER_IDS, keys.encode(mark))])
    with pytest.raises(InvalidRequest):
        await ProducerIds(shop.metadata).fresh()
