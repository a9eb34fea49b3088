"""A bounded run of tests.fuzz; `make fuzz` goes on until stopped."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.wire.kafka.catalog import APIS
from tests.fuzz.mutations import corpus, judge, judge_records, record_corpus, spoil
from tests.support.examples import examples


@pytest.fixture(scope="module")
def frames() -> list[bytes]:
    return corpus()


def test_every_frame_of_the_corpus_is_readable(frames: list[bytes]) -> None:
    assert len(frames) > 150
    assert all(judge(data) for data in frames)


@pytest.mark.parametrize("seed", range(8))
def test_spoilt_frames_are_read_or_malformed(frames: list[bytes], seed: int) -> None:
    dice = random.Random(seed)
    outcomes = [judge(spoil(dice.choice(frames), dice, frames)) for _ in range(1500)]
    # Damage that never hurts, or always kills at once, would test nothing.
    assert 0.02 < sum(outcomes) / len(outcomes) < 0.98


def test_all_walks_judge_spoilt_records_alike() -> None:
    dice = random.Random("records")
    sets = record_corpus(dice)
    outcomes = [
        judge_records(spoil(dice.choice(sets), dice, sets), dice.choice([1, 2, 5, 70, 200]))
        for _ in range(1500)
    ]
    assert any(outcomes)
    assert not all(outcomes)


def test_spoilt_frames_take_little_memory(frames: list[bytes]) -> None:
    dice = random.Random("memory")
    spoilt = [spoil(dice.choice(frames), dice, frames) for _ in range(1500)]
    for data in spoilt:
        judge(data)  # compiles what is needed
    largest = max(map(len, spoilt))
    tracemalloc.start()
    try:
        for data in spoilt:
            judge(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 * largest


@examples(300)
@given(st.sampled_from(APIS), st.data(), st.binary(max_size=200))
def test_a_good_header_before_any_bytes_is_read_or_malformed(
    api: object, data: st.DataObject, body: bytes
) -> None:
    version = data.draw(st.sampled_from(api.versions))  # type: ignore[attr-defined]
    key = api.key  # type: ignore[attr-defined]
    judge(key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff" + body)
