"""python -m tests.fuzz [seed]: spoil frames and records until stopped, or until one breaks us.

Every thousand frames have their own seed; the seed of a failure repeats it.
"""

import random
import sys
import time

from tests.fuzz import pulsar
from tests.fuzz.fluvio import fluvio_corpus, fluvio_sets, judge_fluvio, judge_fluvio_set
from tests.fuzz.mutations import corpus, judge, judge_records, record_corpus, spoil

_ROUND = 1000
_RECORD_SETS = 100  # per round
_PULSAR_FRAMES = 500


def main() -> None:
    frames, pulsar_frames = corpus(), pulsar.corpus()
    first = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(2**32)
    print(f"{len(frames)} frames in the corpus, seed {first}; stop with ctrl-c")
    tried = read = 0
    began = time.monotonic()
    seed = first
    try:
        while True:
            dice = random.Random(seed)
            for _ in range(_ROUND):
                spoilt = spoil(dice.choice(frames), dice, frames)
                try:
                    read += judge(spoilt)
                except Exception:
                    print(f"\nseed {seed} broke the decoder with\n{spoilt.hex()}")
                    raise
                tried += 1
            _spoil_records(dice, seed)
            _spoil_pulsar(dice, seed, pulsar_frames)
            _spoil_fluvio(dice, seed)
            seed += 1
            rate = tried / (time.monotonic() - began)
            print(f"\r{tried} frames, {read} readable, {rate:.0f}/s", end="", flush=True)
    except KeyboardInterrupt:
        print(f"\n{tried} frames, none broke the decoder; next seed {seed}")


def _spoil_records(dice: random.Random, seed: int) -> None:
    """Let every walk judge spoilt records; they must agree."""
    sets = record_corpus(dice)
    for _ in range(_RECORD_SETS):
        spoilt = spoil(dice.choice(sets), dice, sets)
        count = dice.choice([1, 2, 5, 70, 200])
        try:
            judge_records(spoilt, count)
        except Exception:
            print(f"\nseed {seed}: the walks differ on {count} records\n{spoilt.hex()}")
            raise


def _spoil_pulsar(dice: random.Random, seed: int, frames: list[bytes]) -> None:
    """The same for frames of Pulsar clients."""
    for _ in range(_PULSAR_FRAMES):
        spoilt = spoil(dice.choice(frames), dice, frames)
        try:
            pulsar.judge(spoilt)
        except Exception:
            print(f"\nseed {seed} broke Pulsar's decoder with\n{spoilt.hex()}")
            raise


def _spoil_fluvio(dice: random.Random, seed: int) -> None:
    """Frames and record sets of Fluvio clients."""
    frames, sets = fluvio_corpus(), fluvio_sets(dice)
    for _ in range(_RECORD_SETS):
        spoilt = spoil(dice.choice(frames), dice, frames)
        spoilt_set = spoil(dice.choice(sets), dice, sets)
        try:
            judge_fluvio(spoilt)
            judge_fluvio_set(spoilt_set, sign=dice.random() < 0.8)
        except Exception:
            print(f"\nseed {seed} broke the Fluvio door\n{spoilt.hex()}\n{spoilt_set.hex()}")
            raise


if __name__ == "__main__":
    main()
