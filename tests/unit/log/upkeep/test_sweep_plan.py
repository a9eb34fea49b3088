"""Which objects may go, over random histories of one log."""

import random
from collections.abc import Iterable

import msgspec
import pytest

from kafscale.log.formats import keys, manifest
from kafscale.log.formats.manifest import Dropped, LaneMark, Manifest, SegmentEntry
from kafscale.log.formats.segment import ContentId
from kafscale.log.protocol.commits import empty_manifest
from kafscale.log.upkeep.sweep import plan_sweep
from kafscale.objects.store import StoredObject

GRACE_MS = 1000


class World:
    """A log's bucket by names alone, with every manifest ever written."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now_ms = 0
        self.objects: dict[str, int] = {}
        self.manifests: list[Manifest] = [empty_manifest()]
        self.written_ms = [0]
        self.end = 0
        self.token = 0

    @property
    def newest(self) -> Manifest:
        return self.manifests[-1]

    def put(self, name: str) -> None:
        self.objects[name] = self.now_ms

    def step(self) -> None:
        self.now_ms += self.dice.choice([0, 1, 100, 400, 700, 1500])
        self.dice.choice(
            [self.flush, self.flush, self.flush, self.roll_up, self.expire, self.orphan, self.sweep]
        )()

    def flush(self) -> None:
        self.put(keys.segment_name(self.end))
        if self.dice.random() < 0.3:
            self.put(keys.index_of(keys.segment_name(self.end)))
        self.end += 1

    def output(self, base: int) -> str:
        self.token += 1
        name = keys.rewritten_name(base, self.newest.generation + 1, self.token)
        self.put(name)
        self.put(keys.index_of(name))
        return name

    def orphan(self) -> None:
        self.output(self.dice.randrange(self.end + 1))

    def commit(self, changed: Manifest) -> None:
        made = msgspec.structs.replace(changed, generation=self.newest.generation + 1)
        self.manifests.append(made)
        self.written_ms.append(self.now_ms)
        self.put(f"manifest-{made.generation:020d}")

    def roll_up(self) -> None:
        start, end = self.newest.end, self.end
        if start == end:
            return
        merged = self.dice.random() < 0.6
        rows = [(start, end)] if merged else [(at, at + 1) for at in range(start, end)]
        entries = [
            SegmentEntry(
                self.output(a) if merged else keys.segment_name(a),
                a, b, 1, b - a, 0, 0, 0, 0, True,
            )
            for a, b in rows
        ]  # fmt: skip
        mark = {0: LaneMark(0, end)}
        self.commit(manifest.append_history(self.newest, entries, end, ContentId(0, 0, 0), mark))

    def expire(self) -> None:
        if self.newest.end:
            self.commit(
                manifest.raise_starts(self.newest, {0: self.dice.randrange(self.newest.end + 1)})
            )

    def sweep(self) -> None:
        young_ms = self.now_ms - GRACE_MS
        listing = [StoredObject(f"f/{name}", 1, ms) for name, ms in sorted(self.objects.items())]
        old = [m for m, ms in zip(self.manifests, self.written_ms, strict=True) if ms <= young_ms]
        listed = [m for m in old if m.generation == 0 or self.has(m)]
        aged = listed[-1] if listed else empty_manifest()
        plan = plan_sweep(listing, self.newest, aged, young_ms, self.now_ms)
        doomed = {key.rpartition("/")[2] for key in plan.delete}
        self.judge(doomed)
        assert doomed <= set(self.objects)
        for name in doomed:
            del self.objects[name]
        assert not set(plan.gone) & set(self.objects)
        if plan.orphans:
            rows = [Dropped(name, self.newest.generation + 1) for name in plan.orphans]
            assert all(self.objects[name] <= young_ms for name in plan.orphans)
            self.commit(manifest.drop(self.newest, rows))
        if self.dice.random() < 0.5 and plan.gone:
            self.commit(manifest.forget_dropped(self.newest, plan.gone))

    def has(self, one: Manifest) -> bool:
        return f"manifest-{one.generation:020d}" in self.objects

    def readable(self) -> Iterable[Manifest]:
        """Generations that a reader may have in hand: the newest at any time since the grace."""
        for at, one in enumerate(self.manifests):
            is_last = at + 1 == len(self.manifests)
            if is_last or self.written_ms[at + 1] > self.now_ms - GRACE_MS:
                yield one

    def judge(self, doomed: set[str]) -> None:
        for one in self.readable():
            needed = one.names() | {keys.segment_name(at) for at in range(one.end, self.end)}
            assert not needed & doomed, f"a reader of generation {one.generation} needs them"
            if one.generation:
                assert f"manifest-{one.generation:020d}" not in doomed


@pytest.mark.parametrize("seed", range(100))
def test_nothing_goes_that_a_reader_of_a_young_generation_needs(seed: int) -> None:
    world = World(seed)
    for _ in range(80):
        world.step()


def test_in_the_end_only_what_the_newest_manifest_needs_is_left() -> None:
    for seed in range(30):
        world = World(seed)
        for _ in range(60):
            world.step()
        world.roll_up()
        for _ in range(4):
            world.now_ms += GRACE_MS + 1
            world.sweep()
        left = set(world.objects)
        named = world.newest.names()
        with_index = named | {keys.index_of(name) for name in named}
        newest = f"manifest-{world.newest.generation:020d}"
        assert named | {newest} <= left | set()
        assert left <= with_index | {newest} | {
            f"manifest-{one.generation:020d}" for one in world.manifests[-3:]
        }


def test_objects_with_unknown_names_are_left_alone() -> None:
    strange = [StoredObject("f/readme.txt", 1, 0), StoredObject("f/segment-1.kfs", 1, 0)]
    plan = plan_sweep(strange, empty_manifest(), empty_manifest(), 10**9)
    assert (plan.delete, plan.orphans, plan.unfinished) == ([], [], False)
