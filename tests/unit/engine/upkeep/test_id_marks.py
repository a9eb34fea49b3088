"""A metadata store that knows less than the bucket gives out no number a second time."""

from pathlib import Path

import pytest

from kafscale.log.catalog.bucket_scan import SPARE_EPOCHS, SPARE_PRODUCER_IDS
from kafscale.log.formats import keys as names
from kafscale.metadata import keys
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import Put, Remove
from kafscale.model.errors import MetadataUnavailable
from kafscale.testing.faulty_store import Fault, Rule
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.unit.admin.bucket.test_recovery import append_as, mark
from tests.unit.engine.engine_harness import EngineHarness, values_of


async def test_a_store_restored_from_an_older_backup(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    given = await harness.engine.partitions.fresh_producer_id()
    assert await append_as(harness, given) == 0
    epoch = harness.engine.identity.epoch
    await harness.broker.stop()
    await harness.metadata.commit(
        [Remove(keys.PRODUCER_IDS), Put(keys.EPOCHS, keys.encode(keys.Mark(next=0)))]
    )
    await harness.broker.start()
    again = await harness.engine.partitions.fresh_producer_id()
    assert again > given
    assert await append_as(harness, again) == 1, "else it is taken for a repetition, and lost"
    assert harness.engine.identity.epoch > epoch


async def test_a_store_that_is_lost_before_the_first_checkpoint(tmp_path: Path) -> None:
    async with EngineHarness() as harness:
        await harness.engine.topics.create("t", 1, {})
        await harness.reopen()
        await harness.reopen()
        given = await harness.engine.partitions.fresh_producer_id()
        assert await append_as(harness, given) == 0
        epoch = harness.engine.identity.epoch
        assert epoch > 0
        await harness.objects.delete(await harness.keys(names.checkpoint_folder("default")))
        metadata = EmbeddedMetadataStore(tmp_path / "fresh.db", "OFF", harness.clock)
        async with InProcessBroker(
            config=FOR_TESTS, store=harness.objects, metadata=metadata, clock=harness.clock
        ) as broker:
            again = await broker.engine.partitions.fresh_producer_id()
            assert again == given + 1 + SPARE_PRODUCER_IDS
            assert broker.engine.identity.epoch == epoch + SPARE_EPOCHS
        await metadata.aclose()


async def test_a_new_bucket_begins_with_the_first_numbers(harness: EngineHarness) -> None:
    assert await harness.engine.partitions.fresh_producer_id() == 0
    assert harness.engine.identity.epoch == 0


async def test_a_store_that_knows_all_goes_on_without_a_gap(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    given = await harness.engine.partitions.fresh_producer_id()
    await append_as(harness, given)
    await harness.reopen()
    assert await harness.engine.partitions.fresh_producer_id() == given + 1000
    assert await mark(harness.metadata, keys.EPOCHS) == 2
    assert len(values_of(await harness.read("t"))) == 1


async def test_a_broker_that_starts_without_the_bucket_gives_out_ids_when_it_is_back(
    harness: EngineHarness,
) -> None:
    given = await harness.engine.partitions.fresh_producer_id()
    await harness.broker.stop()
    await harness.metadata.commit([Remove(keys.PRODUCER_IDS)])
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find"))
    await harness.broker.start()
    with pytest.raises(MetadataUnavailable):
        await harness.engine.partitions.fresh_producer_id()
    harness.plan.clear()
    assert await harness.engine.partitions.fresh_producer_id() > given
