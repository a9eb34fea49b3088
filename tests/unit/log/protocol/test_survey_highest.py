"""The highest numbers in a log."""

import pytest

from kafscale.log.formats import keys, manifest, segment
from kafscale.log.formats.manifest import LaneMark, Manifest
from kafscale.log.formats.producers import BatchMark, ProducerSnapshot
from kafscale.log.formats.segment import NOTHING_BEFORE, LaneBatches
from kafscale.log.protocol import survey
from kafscale.log.protocol.survey import STRANGE_ID
from kafscale.objects.memory import MemoryObjectStore
from kafscale.records.record import Record, build_batch

FOLDER = "default/t/0"


def flush(base: int, producer_id: int, epoch: int) -> bytes:
    batch = build_batch(
        [Record(base, 1, None, b"x")],
        base_offset=base,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    lane = LaneBatches(0, base, base, 1, 1, 1, [batch])
    built = segment.build(
        base, base + 1, [lane], created_ms=1, token=base, predecessor=NOTHING_BEFORE
    )
    return b"".join(built.body)


async def log_of(*tail: bytes) -> MemoryObjectStore:
    """A log whose past ends at 5, and these flushes behind it."""
    store = MemoryObjectStore()
    rows = [
        ProducerSnapshot(40, 0, 1, [BatchMark(0, 0, 4)]),
        ProducerSnapshot(STRANGE_ID, 0, 1, []),
    ]
    mark = LaneMark(2, 5, [(1, 0), (3, 4)], rows)
    past = Manifest(generation=1, commit_id="c", created_ms=1, author="t", end=5, lanes={0: mark})
    await store.put_new(keys.manifest(FOLDER, 1), [manifest.encode(past)])
    for base, body in enumerate(tail, 5):
        await store.put_new(keys.segment(FOLDER, base), [body])
    return store


async def test_the_past_is_known_by_its_manifest() -> None:
    found = await survey.read_highest(await log_of(), FOLDER)
    assert found == (40, 3, {0: (2, 5)}, [], [])


async def test_the_tail_is_read() -> None:
    store = await log_of(flush(5, 41, 7), flush(6, STRANGE_ID, 6), flush(7, -1, 6))
    found = await survey.read_highest(store, FOLDER)
    assert found == (41, 7, {0: (2, 8)}, [], [])


async def test_an_empty_log_has_none() -> None:
    assert await survey.read_highest(MemoryObjectStore(), FOLDER) == (-1, -1, {}, [], [])


async def test_numbers_of_a_broken_object_are_not_believed() -> None:
    broken = bytearray(flush(6, 99, 99))
    broken[-20] ^= 1  # in the last batch
    store = await log_of(flush(5, 41, 4), bytes(broken))
    found = await survey.read_highest(store, FOLDER)
    assert (found.producer_id, found.epoch) == (41, 4)
    (problem,) = found.problems
    assert keys.segment(FOLDER, 6) in problem


async def test_a_log_that_moves_meanwhile_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = await log_of(flush(5, 41, 4))
    look, looks = survey.take_snapshot, 0

    async def rolled_up_meanwhile(*arguments: object) -> object:
        nonlocal looks
        looks += 1
        seen = await look(*arguments)  # type: ignore[arg-type]
        if looks == 1:
            await objects.delete([keys.segment(FOLDER, 5)])
        return seen

    monkeypatch.setattr(survey, "take_snapshot", rolled_up_meanwhile)
    assert (await survey.read_highest(objects, FOLDER)).producer_id == 40
    assert looks == 2
