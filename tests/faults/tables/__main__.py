"""Attack runners of the pipeline and judge their tables.

python -m tests.faults.tables [--minutes M] [--seed N]
"""

import argparse
import random
import sys

from tests.faults.tables.run import attacked


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.tables", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    verdict = attacked(options.minutes * 60, seed, lambda text: print(text, flush=True))
    print(f"\n{verdict}\nseed {seed}")
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())
