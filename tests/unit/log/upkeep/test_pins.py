"""What pins hold back, over the same random histories as sweeping without them."""

import pytest

from kafscale.log.formats import keys
from kafscale.log.formats.keys import Pin
from tests.unit.log.upkeep.test_sweep_plan import GRACE_MS, World


class PinnedWorld(World):
    """A log of which the test takes snapshots now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.needed: dict[str, tuple[Pin, set[str]]] = {}

    def pin(self, kept_ms: int) -> None:
        held = Pin(self.newest.generation, self.end, self.now_ms + kept_ms)
        self.token += 1
        name = keys.pin("f", held, self.token).removeprefix("f/")
        flushes = {keys.segment_name(at) for at in range(self.newest.end, self.end)}
        self.needed[name] = (held, (self.newest.names() | flushes) & set(self.objects))
        self.put(name)

    def step(self) -> None:
        super().step()
        if self.dice.random() < 0.1:
            self.pin(self.dice.choice([10, 2_000, 20_000]))

    def judge(self, doomed: set[str]) -> None:
        super().judge(doomed)
        for name, (held, needed) in self.needed.items():
            if held.expires_ms > self.now_ms:
                assert not (needed | {name}) & doomed


@pytest.mark.parametrize("seed", range(60))
def test_nothing_goes_that_a_pinned_log_needs(seed: int) -> None:
    world = PinnedWorld(seed)
    for _ in range(100):
        world.step()


def test_after_a_pin_has_expired_all_it_held_goes() -> None:
    for seed in range(20):
        world = PinnedWorld(seed)
        for _ in range(60):
            world.step()
        world.now_ms += 30_000
        world.roll_up()
        for _ in range(4):
            world.now_ms += GRACE_MS + 1
            world.sweep()
        named = world.newest.names()
        left = {name for name in world.objects if not name.startswith("manifest")}
        assert left <= named | {keys.index_of(name) for name in named}


def test_names_of_pins_are_read_back() -> None:
    held = Pin(7, 1000, 1_700_000_000_000)
    assert keys.parse_pin(keys.pin("a/b/0", held, 0xABC)) == held
    assert keys.parse_pin("a/b/0/segment-00000000000000000000.kfs") is None
    assert keys.parse_segment(keys.pin("a/b/0", held, 1)) is None
    assert keys.parse_generation(keys.pin("a/b/0", held, 1)) is None
