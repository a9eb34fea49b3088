"""Review: moves."""

import asyncio



from kafscale.engine import removals
from kafscale.log import history, moving
from kafscale.model.topics import LaneRange
from tests.unit.engine.shop import Shop
from tests.unit.engine.test_administration import adding
from tests.unit.engine.test_moves import LAYOUTS, all_values, arrived, filled, move

__all__ = ["filled"]


async def test_a_consumer_at_the_end_of_an_emptied_partition_goes_on(filled: Shop) -> None:
    topic = filled.engine.topics.get("t")
    await filled.engine.admin.delete_records(topic, 0, 3)
    assert (await filled.read("t", 3)).error is None
    await move(filled, "shared")
    assert await filled.append("t", b"new") == 4
    assert (await filled.read("t", 3)).error is None, "auto.offset.reset=latest would miss it"


async def test_manifests_of_a_move_do_not_grow_with_partitions(shop: Shop) -> None:
    await shop.engine.create_topic("t", 40, {})
    await move(shop, "shared")
    made = [key for verb, key in shop.store.calls if verb == "put_new" and "@shared/0/" in key]
    manifests = [key for key in made if "/manifest-" in key]
    segments = [key for key in made if "/segment-" in key and key.endswith(".kfs")]
    assert len(manifests) < 8 and len(segments) < 16, (len(manifests), len(segments))


async def test_more_partitions_while_a_move_came_and_went(shop: Shop) -> None:
    await shop.engine.create_topic("t", 2, LAYOUTS["shared"])
    assert await shop.append("t", b"old") == 0
    allot = shop.engine.topics.allot

    async def slow(count: int) -> LaneRange:
        found = await allot(count)
        await move(shop, "ordinary")
        return found

    shop.engine.topics.allot = slow  # type: ignore[method-assign]
    try:
        await shop.engine.admin.create_partitions("t", 3)
    except Exception as problem:  # noqa: BLE001
        print("refused", problem)
    shop.engine.topics.allot = allot  # type: ignore[method-assign]
    await shop.reopen()
    assert await all_values(shop) == [b"old"]
    assert await shop.append("t", b"new") == 2


async def test_more_partitions_while_a_move_came_and_went_the_other_way(shop: Shop) -> None:
    await shop.engine.create_topic("t", 2, {})
    change = shop.engine.admin._change

    async def slow(name, changed):  # type: ignore[no-untyped-def]
        shop.engine.admin._change = change
        await move(shop, "shared")
        await change(name, changed)

    shop.engine.admin._change = slow
    try:
        await shop.engine.admin.create_partitions("t", 3)
    except Exception as problem:  # noqa: BLE001
        print("refused", problem)
    topic = shop.engine.topics.get("t")
    for partition in range(topic.partitions):
        topic.place(partition)


async def test_a_topic_deleted_as_it_arrives_leaves_no_old_place(filled: Shop) -> None:
    topics = filled.engine.topics
    take_up = topics._take_up
    once = asyncio.Event()

    async def slow(descriptor, version):  # type: ignore[no-untyped-def]
        if descriptor.moves and not once.is_set():
            once.set()
            await filled.engine.delete_topic("t")
        return await take_up(descriptor, version)

    topics._take_up = slow  # type: ignore[method-assign]
    await filled.engine.admin.change_configs("t", adding("storage.placement", "shared"))
    async with asyncio.timeout(20):
        await once.wait()
    await asyncio.sleep(0.2)
    filled.clock.advance_ms(2 * removals.LEFT_ALONE_MS)
    await filled.engine.housekeeping.tidy()
    assert [key for key in await filled.keys("default/t") if "segment" in key] == []


async def test_a_start_that_could_not_be_raised_is_no_arrival(filled: Shop, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """DeleteRecords after the copy: the new lane has the records already."""
    raise_starts = history.raise_starts
    lost = []
    copy = moving.copy
    deleted = asyncio.Event()

    async def copied(*args):  # type: ignore[no-untyped-def]
        found = await copy(*args)
        if not deleted.is_set():
            deleted.set()
            topic = filled.engine.topics.get("t")
            await filled.engine.admin.delete_records(topic, 0, 2)
        return found

    async def unlucky(log, starts):  # type: ignore[no-untyped-def]
        if "@shared" in log.folder and not lost:
            lost.append(starts)
            return False  # a manifest of somebody else came between: look and ask again
        return await raise_starts(log, starts)

    monkeypatch.setattr(moving, "copy", copied)
    monkeypatch.setattr(history, "raise_starts", unlucky)
    await move(filled, "shared")
    assert lost
    assert (await filled.read("t", 2)).start == 2


async def test_an_arrival_reaches_the_metadata_store_though_it_stumbles_once(filled: Shop) -> None:
    from kafscale.engine import moves  # noqa: F401
    from kafscale.metadata import keys
    from kafscale.model.errors import MetadataUnavailable

    topics = filled.engine.topics
    take_up = topics._take_up
    failed = []

    async def stumbling(descriptor, version):  # type: ignore[no-untyped-def]
        if descriptor.moves and not failed:
            failed.append(1)
            raise MetadataUnavailable("planned: an election of etcd")
        return await take_up(descriptor, version)

    topics._take_up = stumbling  # type: ignore[method-assign]
    await filled.engine.admin.change_configs("t", adding("storage.placement", "shared"))
    await arrived(filled)
    await asyncio.sleep(1.0)
    assert failed
    found = await filled.metadata.get(keys.topic_config("t"))
    assert found is not None
    row = keys.decode(keys.Topic, found.value)
    assert row.moving is None, "all other brokers take it for sealed, for ever"


async def test_a_shared_log_survives_a_late_beginner(filled: Shop, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from kafscale.engine import moves

    await filled.engine.create_topic("neighbour", 1, LAYOUTS["shared"])
    await filled.append("neighbour", b"n")
    topic = filled.engine.topics.get("t")
    await filled.engine.admin.delete_records(topic, 0, 3)  # as retention does: nothing is left
    monkeypatch.setattr(moves, "NEAR_BYTES", -1)  # much is written elsewhere: copying takes a while
    await filled.engine.admin.change_configs("t", adding("storage.placement", "shared"))
    await asyncio.sleep(0.3)
    (log,) = [log for one, log in filled.engine.logs.each() if one is None]
    await history.roll_up(log)  # what the copies make due
    assert await filled.append("t", b"first after all") == 3
    monkeypatch.setattr(moves, "NEAR_BYTES", 4 << 20)
    await arrived(filled)
    await filled.reopen()
    assert await all_values(filled, 0, "neighbour") == [b"n"]


async def test_looking_for_the_dead_does_not_cost_per_removal(shop: Shop) -> None:
    await shop.engine.create_topic("stays", 1, LAYOUTS["shared"])
    for number in range(20):
        await shop.engine.create_topic(f"t{number}", 1, LAYOUTS["shared"])
        await shop.append(f"t{number}", b"x")
        await shop.append("stays", b"y" * 200)
    for number in range(20):
        await shop.engine.delete_topic(f"t{number}")
    shop.clock.advance_ms(7_200_000)
    await shop.engine.housekeeping.tidy()
    before = len(shop.store.calls)
    shop.clock.advance_ms(700_000)
    await shop.engine.housekeeping.tidy()
    made = [call for call in shop.store.calls[before:] if "@shared/0" in call[1]]
    assert len(made) < 40, len(made)


async def test_a_deleted_lane_is_forgotten_one_day(shop: Shop) -> None:
    await shop.engine.create_topic("stays", 1, LAYOUTS["shared"])
    await shop.append("stays", b"y")
    for number in range(20):
        await shop.engine.create_topic(f"t{number}", 1, LAYOUTS["shared"])
        await shop.append(f"t{number}", b"x")
        await shop.engine.delete_topic(f"t{number}")
    for _ in range(6):
        await shop.engine.housekeeping.tidy()
        shop.clock.advance_ms(86_400_000)
    await shop.reopen()
    await shop.append("stays", b"y")
    (log,) = [log for one, log in shop.engine.logs.each() if one is None]
    from kafscale.metadata import keys
    left = await shop.metadata.find(keys.REMOVALS)
    assert (len(left), len(log.manifest.lanes)) <= (0, 5)
