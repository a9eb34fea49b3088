"""A little of `make fuzz`."""

import random

import pytest

from tests.fuzz.mutations import spoil
from tests.fuzz.pulsar import corpus, judge


@pytest.fixture(scope="module")
def frames() -> list[bytes]:
    return corpus()


def test_every_frame_of_the_corpus_is_readable(frames: list[bytes]) -> None:
    assert all(judge(data) for data in frames)


@pytest.mark.parametrize("seed", range(4))
def test_spoilt_frames_are_read_or_refused(frames: list[bytes], seed: int) -> None:
    dice = random.Random(seed)
    outcomes = [judge(spoil(dice.choice(frames), dice, frames)) for _ in range(1500)]
    assert 0.01 < sum(outcomes) / len(outcomes) < 0.98
