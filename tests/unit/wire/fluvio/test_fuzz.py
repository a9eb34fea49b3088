"""A bounded run of tests.fuzz for the Fluvio door; `make fuzz` goes on until stopped."""

import random

import pytest

from tests.fuzz.fluvio import fluvio_corpus, fluvio_sets, judge_fluvio, judge_fluvio_set
from tests.fuzz.mutations import spoil


def test_the_corpus_can_be_read() -> None:
    assert all(judge_fluvio(frame) for frame in fluvio_corpus())


@pytest.mark.parametrize("seed", range(4))
def test_spoilt_frames_and_record_sets_break_nothing(seed: int) -> None:
    dice = random.Random(seed)
    frames, sets = fluvio_corpus(), fluvio_sets(dice)
    for _ in range(500):
        judge_fluvio(spoil(dice.choice(frames), dice, frames))
        judge_fluvio_set(spoil(dice.choice(sets), dice, sets), sign=dice.random() < 0.8)
