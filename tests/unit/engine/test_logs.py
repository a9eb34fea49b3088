"""The logs of a broker: how many there are, and how many are of no use."""

import pytest

from kafscale.model.errors import LogStopped
from tests.unit.engine.shop import Shop


async def test_logs_with_broken_objects_are_counted_until_they_are_whole(shop: Shop) -> None:
    await shop.engine.create_topic("t", 2, {})
    await shop.append("t", b"x")
    assert shop.engine.logs.stopped() == 0
    topic = shop.engine.topics.get("t")
    (segment,) = await shop.store.find(topic.folder(0))
    whole = bytes(await shop.store.read(segment.key))
    await shop.reopen()
    await shop.store.delete([segment.key])
    await shop.store.put_new(segment.key, [whole[:60] + b"?" + whole[61:]])
    for _ in range(2):
        with pytest.raises(LogStopped):
            await shop.engine.logs.open(topic, 0)
    await shop.engine.logs.open(topic, 1)
    assert (shop.engine.logs.count(), shop.engine.logs.stopped()) == (1, 1)
    await shop.store.delete([segment.key])
    await shop.store.put_new(segment.key, [whole])
    await shop.engine.logs.open(topic, 0)
    assert (shop.engine.logs.count(), shop.engine.logs.stopped()) == (2, 0)
