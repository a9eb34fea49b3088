"""python -m tests.fuzz [seed]: spoil frames until stopped, or until the decoder breaks.

Every thousand frames have their own seed; the seed of a failure repeats it.
"""

import random
import sys
import time

from tests.fuzz.mutations import corpus, judge, spoil

_ROUND = 1000


def main() -> None:
    frames = corpus()
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
            seed += 1
            rate = tried / (time.monotonic() - began)
            print(f"\r{tried} frames, {read} readable, {rate:.0f}/s", end="", flush=True)
    except KeyboardInterrupt:
        print(f"\n{tried} frames, none broke the decoder; next seed {seed}")


if __name__ == "__main__":
    main()
