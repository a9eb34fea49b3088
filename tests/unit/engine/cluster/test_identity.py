"""Which broker this is: ids that are given out once and kept."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kafscale.engine.cluster.identity import FIRST_ALLOCATED_ID, Identity, claim_identity
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import MetadataStore
from kafscale.testing.clock import ManualClock, SeededDice
from tests.unit.engine.engine_harness import FaultyMetadata


@pytest.fixture
async def metadata(tmp_path: Path) -> AsyncIterator[FaultyMetadata]:
    store = FaultyMetadata(EmbeddedMetadataStore(tmp_path / "metadata.db", "OFF"))
    yield store
    await store.aclose()


async def become(store: MetadataStore, broker_id: int | None, name: str | None) -> Identity:
    return await claim_identity(store, ManualClock(), SeededDice(1), broker_id, name)


async def test_a_name_has_the_same_id_at_every_start(metadata: FaultyMetadata) -> None:
    first = await become(metadata, None, "a:9092")
    second = await become(metadata, None, "b:9092")
    again = await become(metadata, None, "a:9092")
    assert (first.broker_id, second.broker_id) == (FIRST_ALLOCATED_ID, FIRST_ALLOCATED_ID + 1)
    assert again.broker_id == first.broker_id
    assert again.epoch > second.epoch > first.epoch
    assert first.cluster_id == second.cluster_id == again.cluster_id


async def test_without_a_name_every_start_is_another_broker(metadata: FaultyMetadata) -> None:
    ids = [(await become(metadata, None, "")).broker_id for _ in range(3)]
    assert ids == [FIRST_ALLOCATED_ID + number for number in range(3)]


async def test_a_configured_id_is_taken_as_it_is(metadata: FaultyMetadata) -> None:
    assert (await become(metadata, 3, "a:9092")).broker_id == 3
    assert (await become(metadata, 0, "a:9092")).broker_id == 0


async def test_the_only_broker_there_is_has_id_0(metadata: FaultyMetadata) -> None:
    assert (await become(metadata, None, None)).broker_id == 0
