"""`kafscale proxy verify`: a sound log passes, and everything that does not agree is named."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafscale.proxy import verifying
from kafscale.proxy.coordination.topics import MappedTopic
from kafscale.proxy.partitions.open_partitions import state_key
from kafscale.proxy.state.checkpoints import write_checkpoint
from kafscale.proxy.state.lanes import PhysicalLog
from kafscale.proxy.state.tags import Tag
from kafscale.proxy.upstream.fetching import EARLIEST, Block
from kafscale.proxy.verifying import PartitionReport, verify_partition
from kafscale.records.batch import read_header
from kafscale.testing.clock import ManualClock
from tests.unit.proxy.state.test_lanes import NOW_MS, apply, batch_of

pytestmark = pytest.mark.asyncio
TOPIC = MappedTopic("orders", b"\1" * 16, 6, 2)
# Two batches of lane 1, one of lane 2, one of a plain producer, and a copy that does not count.
BATCHES = [
    batch_of(3, Tag(1, 0, 0, 0), 0),
    batch_of(2, Tag(2, 0, 0, 0), 3),
    batch_of(2, Tag(1, 3, 0, 0), 5),
    batch_of(2, Tag(1, 3, 0, 0), 7),
    batch_of(4, None, 9),
]


def known(batches: list[memoryview]) -> PhysicalLog:
    log = PhysicalLog()
    for batch in batches:
        apply(log, batch)
    return log


async def verify(
    monkeypatch: pytest.MonkeyPatch,
    kept: PhysicalLog | None,
    batches: list[memoryview] = BATCHES,
) -> PartitionReport:
    headers = [read_header(batch) for batch in batches]
    start, end = headers[0].base_offset, headers[-1].next_offset

    async def offset(_upstream: Any, _topic: str, _index: int, which: int) -> int:
        return start if which == EARLIEST else end

    async def fetch(_upstream: Any, _topic: str, _index: int, place: int) -> Block:
        data = b"".join(
            batch
            for batch, header in zip(batches, headers, strict=True)
            if header.base_offset >= place
        )
        return Block(memoryview(data), place, end, end, start)

    monkeypatch.setattr(verifying, "list_offset", offset)
    monkeypatch.setattr(verifying, "fetch_block", fetch)
    rows = {} if kept is None else {state_key(TOPIC.topic_id, 0): write_checkpoint(kept, NOW_MS)}
    ledger: Any = SimpleNamespace(rows=rows)
    return await verify_partition(None, ledger, TOPIC, 0, ManualClock())  # type: ignore[arg-type]


@pytest.mark.parametrize("read", [None, 0, 1, 3, 5])
async def test_a_log_that_agrees_with_its_checkpoint_is_sound(
    monkeypatch: pytest.MonkeyPatch, read: int | None
) -> None:
    found = await verify(monkeypatch, None if read is None else known(BATCHES[:read]))
    assert found.problems == ()
    counted = found.batches, found.records, found.lanes, found.void, found.plain
    assert counted == (5, 11, 3, 1, 1)
    assert str(found).endswith("no checkpoint" if read is None else f"at {found.checkpoint}")


async def test_what_retention_took_is_known_from_the_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = known(BATCHES)
    kept.retain(3, {})
    found = await verify(monkeypatch, kept, BATCHES[1:])
    assert found.problems == ()


async def test_a_lane_that_ends_elsewhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = known(BATCHES)
    kept.lane(1).next = 6
    found = await verify(monkeypatch, kept)
    assert found.problems == ("lane 1 ends at 5, by the checkpoint at 6",)
    assert "; WRONG: lane 1" in str(found)
    assert not found.is_sound


async def test_a_mark_of_another_lane_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = known(BATCHES)
    kept.lane(2)._places[0] = 0
    kept.lane(1)._places[0] = 3
    found = await verify(monkeypatch, kept)
    assert found.problems == (
        "the batch at 0 is offset 0 of lane 1, by the checkpoint 0 of lane 2",
        "the batch at 3 is offset 0 of lane 2, by the checkpoint 0 of lane 1",
    )


async def test_a_log_that_ends_before_its_checkpoint_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await verify(monkeypatch, known(BATCHES), BATCHES[:4])
    assert found.problems == ("the checkpoint is at 13, the log ends at 9",)


async def test_a_broken_batch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = bytearray(BATCHES[1])
    broken[-1] ^= 1
    found = await verify(monkeypatch, None, [BATCHES[0], memoryview(broken), *BATCHES[2:]])
    assert found.problems == ("the batch at 3 has a wrong checksum",)
