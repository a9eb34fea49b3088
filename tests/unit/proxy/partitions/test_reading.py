"""Blocks of a physical log: fetched once, some ahead of the reader, the last used ones kept."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafscale.model.errors import KafscaleError
from kafscale.proxy.partitions import reading
from kafscale.proxy.partitions.reading import PhysicalBlocks
from kafscale.proxy.upstream.fetching import Block
from kafscale.proxy.upstream.link import UpstreamLost
from kafscale.tasks import Tasks

SIZE = 100


class Log:
    """A physical log whose blocks have ten places and a hundred bytes each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, end: int) -> None:
        self.fetched: list[int] = []
        self.broken: set[int] = set()
        self.partition: Any = SimpleNamespace(
            topic="t", index=0, log=SimpleNamespace(next_place=end)
        )
        monkeypatch.setattr(reading, "fetch_block", self._fetch)
        # A key of dictionaries, as a partition is.
        self.partition = type("Partition", (), vars(self.partition))()

    async def _fetch(self, _upstream: object, _topic: str, _index: int, place: int) -> Block:
        self.fetched.append(place)
        if place in self.broken:
            raise UpstreamLost("on purpose")
        return Block(memoryview(bytes(SIZE)), place, place + 10, 0, 0)


async def settled(tasks: Tasks) -> None:
    while len(tasks):
        await tasks.wait_for_one()


async def test_the_next_blocks_are_there_when_the_reader_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, tasks = Log(monkeypatch, 65), Tasks()
    blocks = PhysicalBlocks(None, 10 * SIZE, tasks)  # type: ignore[arg-type]
    assert (await blocks.get(log.partition, 0)).end == 10
    await settled(tasks)
    assert log.fetched == [0, 10, 20, 30]
    assert (await blocks.get(log.partition, 5)).start == 0
    assert (await blocks.get(log.partition, 10)).start == 10
    await settled(tasks)
    assert log.fetched == [0, 10, 20, 30, 40]
    assert (await blocks.get(log.partition, 30)).start == 30
    await settled(tasks)
    assert log.fetched == [0, 10, 20, 30, 40, 50, 60]  # the last is small: it is not kept
    assert (await blocks.get(log.partition, 60)).end == 70
    await settled(tasks)
    assert log.fetched == [0, 10, 20, 30, 40, 50, 60, 60]


async def test_a_large_block_at_the_end_of_the_log_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_WORTH_KEEPING", SIZE)
    log, tasks = Log(monkeypatch, 10), Tasks()
    blocks = PhysicalBlocks(None, 10 * SIZE, tasks)  # type: ignore[arg-type]
    for _ in range(2):
        assert (await blocks.get(log.partition, 0)).end == 10
    assert log.fetched == [0]


async def test_a_look_ahead_that_fails_hurts_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    log, tasks = Log(monkeypatch, 100), Tasks()
    log.broken.add(10)
    blocks = PhysicalBlocks(None, 10 * SIZE, tasks)  # type: ignore[arg-type]
    assert (await blocks.get(log.partition, 0)).end == 10
    await settled(tasks)
    with pytest.raises(KafscaleError):
        await blocks.get(log.partition, 10)
    log.broken.clear()
    assert (await blocks.get(log.partition, 10)).end == 20
    await settled(tasks)


async def test_memory_is_bounded_and_a_small_one_keeps_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, tasks = Log(monkeypatch, 1000), Tasks()
    blocks = PhysicalBlocks(None, SIZE, tasks)  # type: ignore[arg-type]
    await blocks.get(log.partition, 0)
    await settled(tasks)
    assert (await blocks.get(log.partition, 0)).start == 0
    assert log.fetched == [0]
    blocks.forget(log.partition)
    await blocks.get(log.partition, 0)
    assert log.fetched == [0, 0]
