"""Two owners at once, a store that loses answers, pauses beyond the grace period: one seed a run.

Whatever happens, an acknowledged batch is there once, at its offset, and offsets are dense.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from kafscale.log.upkeep import retention, rollup, sweep
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.model.buffers import Buffer
from kafscale.model.errors import BadSequence, KafscaleError, NotTheOwner
from kafscale.objects.memory import MemoryObjectStore
from kafscale.objects.store import StoredObject
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import (
    GRACE_S,
    LogHarness,
    append,
    committed,
    everything,
    make_batch,
    settle,
)

T = TypeVar("T")

STEPS = 60
LANES = (0, 1)


class HesitantStore:
    """Everything takes a random number of turns, now and then very many, before and after."""

    def __init__(self, inner: object, dice: random.Random) -> None:
        self.inner = inner
        self.dice = dice

    async def _hesitate(self, deed: Callable[[], Awaitable[T]]) -> T:
        await settle(self.turns())
        result = await deed()
        await settle(self.turns())
        return result

    def turns(self) -> int:
        return self.dice.randrange(120) if self.dice.random() < 0.05 else self.dice.randrange(4)

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        await self._hesitate(lambda: self.inner.put_new(key, body))  # type: ignore[attr-defined]

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        return await self._hesitate(lambda: self.inner.read(key, start, length))  # type: ignore[attr-defined]

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        return await self._hesitate(lambda: self.inner.find(folder, after, before, limit))  # type: ignore[attr-defined]

    async def delete(self, keys: Sequence[str]) -> None:
        await self._hesitate(lambda: self.inner.delete(keys))  # type: ignore[attr-defined]

    async def now_ms(self) -> int:
        return await self._hesitate(self.inner.now_ms)  # type: ignore[attr-defined]

    async def aclose(self) -> None:
        return None


class Fight:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.harness = LogHarness(MemoryObjectStore, seed)
        self.store = HesitantStore(self.harness.store, self.dice)
        self.owners: list[Log] = []
        self.acknowledged: dict[tuple[int, int], bytes] = {}  # (lane, offset) to value
        self.over = False
        plan = self.harness.plan
        plan.add(Rule(Fault.FAIL_BEFORE, chance=0.03))
        plan.add(Rule(Fault.FAIL_AFTER, chance=0.05))

    async def owner(self) -> Log:
        while True:
            log = self.harness.make_log(
                epoch=len(self.owners), store=self.store, index_from_bytes=600, rollup_objects=3
            )
            try:
                await log.open()
                return log
            except KafscaleError:
                await log.abandon()

    async def produce(self, lane: int, value: bytes, producer: int = -1, sequence: int = 0) -> bool:
        """One attempt with one of the owners; True if acknowledged."""
        data = make_batch(value, producer=producer, sequence=sequence)
        try:
            first = await committed(append(self.dice.choice(self.owners), data, lane))
        except (NotTheOwner, BadSequence):
            return False
        known = self.acknowledged.setdefault((lane, first), value)
        assert known == value, f"offset {first} of lane {lane} was given away twice"
        return True

    async def produce_in_order(self, producer: int, lane: int) -> None:
        """An idempotent producer: the same batch again until it is acknowledged."""
        sequence = 0
        while not self.over:
            value = b"p%d-%d" % (producer, sequence)
            if await self.produce(lane, value, producer, sequence):
                sequence += 1
            await settle(self.dice.randrange(6))

    async def tidy(self, log: Log) -> None:
        try:
            match self.dice.randrange(6):
                case 0 | 1:
                    await rollup.roll_up(log)
                case 2:
                    await log.adopt_foreign()
                case 3:
                    log.history.ask_for_sweep()
                    await sweep.sweep(log)
                case 4:
                    lane = self.dice.choice(LANES)
                    await retention.raise_starts(
                        log, {lane: self.dice.randrange(log.lane(lane).high + 1)}
                    )
                case 5:
                    await log.abandon()
                    self.owners[self.owners.index(log)] = await self.owner()
        except (KafscaleError, ValueError):
            return  # the store failed, or another has replaced this owner meanwhile

    async def run(self) -> None:
        self.owners = [await self.owner(), await self.owner()]
        async with asyncio.TaskGroup() as tasks:
            for producer, lane in ((1, 0), (2, 1), (3, 1)):
                tasks.create_task(self.produce_in_order(producer, lane))
            for step in range(STEPS):
                if self.dice.random() < 0.6:
                    tasks.create_task(self._produce_once(b"n%d" % step))
                if self.dice.random() < 0.3:
                    tasks.create_task(self.tidy(self.dice.choice(self.owners)))
                pause_ms = self.dice.choice([0, 0, 1, 1000, GRACE_S * 260, GRACE_S * 1100])
                self.harness.clock.advance_ms(pause_ms)
                await settle(self.dice.randrange(12))
            self.over = True
            self.harness.plan.clear()

    async def _produce_once(self, value: bytes) -> None:
        await self.produce(self.dice.choice(LANES), value)

    async def judge(self) -> None:
        assert all(log.state is not LogState.STOPPED for log in self.harness.logs)
        fresh = await self.harness.open()
        for number in LANES:
            rows = await everything(self.harness, number)
            lane = fresh.lane(number)
            offsets = [offset for offset, _ in rows if offset >= lane.start]
            assert offsets == list(range(lane.start, lane.high))
            stored = dict(rows)
            for (where, offset), value in self.acknowledged.items():
                if where == number and offset >= lane.start:
                    assert stored.get(offset) == value
            numbered = [value for _, value in rows if value.startswith(b"p")]
            assert len(numbered) == len(set(numbered)), "an idempotent batch was stored twice"


SEEDS = [*range(40), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 200))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_whichever_owner_wins_what_was_acknowledged_is_there_once(seed: int) -> None:
    fight = Fight(seed)
    try:
        await fight.run()
        await fight.judge()
        assert fight.acknowledged
    finally:
        await fight.harness.aclose()
