"""Run seeds: `python -m tests.simulation` until stopped, or some, or one again.

python -m tests.simulation                    seeds from 0 on, until stopped
python -m tests.simulation --first 500 -n 200
python -m tests.simulation --seed 42          one, with its trace
python -m tests.simulation --transactions     the same worlds, with transactions
"""

import argparse
import itertools
import sys
import time
from pathlib import Path

from tests.simulation.runner import Report, run, run_transactional
from tests.simulation.scenario import draw

TRACES = Path(".cache/simulation")


def replay_command(seed: int, *, with_transactions: bool = False) -> str:
    """What shows a failure again, exactly."""
    more = " --transactions" if with_transactions else ""
    return f"python -m tests.simulation --seed {seed}{more}"


def describe(report: Report, *, with_transactions: bool = False) -> str:
    """The few lines that a failing seed prints."""
    again = replay_command(report.seed, with_transactions=with_transactions)
    return "\n".join([f"seed {report.seed}: {again}", *report.problems[:10]])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="run this one alone and write its trace")
    parser.add_argument("--transactions", action="store_true", help="clients make transactions")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("-n", "--number", type=int, help="so many seeds; without it, no end")
    given = parser.parse_args()
    if given.seed is not None:
        return _again(given.seed, with_transactions=given.transactions)
    return _many(given.first, given.number, with_transactions=given.transactions)


def _again(seed: int, *, with_transactions: bool) -> int:
    report = (run_transactional if with_transactions else run)(seed, verbose=True)
    TRACES.mkdir(parents=True, exist_ok=True)
    path = TRACES / f"{seed}.trace"
    path.write_text("\n".join([repr(draw(seed)), *report.lines, *report.problems, ""]))
    print(f"{report.virtual_s:.0f} virtual seconds, trace {report.trace_hash} in {path}")
    print("\n".join(report.problems) or "nothing is wrong")
    return 1 if report.problems else 0


def _many(first: int, number: int | None, *, with_transactions: bool) -> int:
    seeds = itertools.count(first) if number is None else range(first, first + number)
    began_s, failed, done, acknowledged, virtual_s = time.monotonic(), 0, 0, 0, 0.0
    committed = 0
    try:
        for seed in seeds:
            report = (run_transactional if with_transactions else run)(seed)
            done += 1
            acknowledged += report.acknowledged
            virtual_s += report.virtual_s
            committed += report.transactions
            if report.problems:
                failed += 1
                print(describe(report, with_transactions=with_transactions), flush=True)
            elif done % 100 == 0:
                print(f"{done} seeds, up to {seed}: {failed} failed", flush=True)
    except KeyboardInterrupt:
        pass
    took_s = time.monotonic() - began_s
    print(
        f"{done} seeds in {took_s:.0f} s: {acknowledged} records acknowledged in "
        f"{virtual_s / 3600:.1f} virtual hours, {committed} transactions committed, "
        f"{failed} seeds failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
