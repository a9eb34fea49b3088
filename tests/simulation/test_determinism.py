"""A seed is a run, wherever and how often it is run."""

import os
import subprocess
import sys

from tests.simulation.runner import run

SEEDS = (2, 3, 4, 28, 33)  # fleets, groups, sleepy writers, topics that move
PROGRAM = """
import sys
from tests.simulation.runner import run
for seed in map(int, sys.argv[1:]):
    print(run(seed).trace_hash)
"""


def _hashes_elsewhere(hash_seed: str) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, SEEDS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return found.stdout.split()


def test_a_seed_gives_the_same_trace_here_twice_and_in_other_processes() -> None:
    here = [run(seed).trace_hash for seed in SEEDS]
    ballast = [bytearray(number) for number in range(5_000)]  # other addresses, other orders
    assert [run(seed).trace_hash for seed in SEEDS] == here
    assert len(ballast) == 5_000
    assert _hashes_elsewhere("1") == here
    assert _hashes_elsewhere("4242") == here


def test_different_seeds_give_different_traces() -> None:
    assert len({run(seed).trace_hash for seed in range(5)}) == 5


def test_a_trace_in_words_is_the_same_run() -> None:
    spoken = run(3, verbose=True)
    assert spoken.lines
    assert spoken.trace_hash == run(3).trace_hash
