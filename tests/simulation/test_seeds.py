"""Some hundred seeds, each a whole cluster under faults. `make simulate` runs more of them."""

import pytest

from tests.simulation.__main__ import describe
from tests.simulation.runner import run

BLOCK = 10
SEEDS = 160


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_whatever_happens_no_promise_is_broken(first: int) -> None:
    seeds = range(first, first + BLOCK)
    reports = [run(seed) for seed in seeds]
    broken = [describe(report) for report in reports if report.problems]
    assert not broken, "\n".join(broken)
    # A simulation in which nothing happens would find nothing.
    assert sum(report.acknowledged for report in reports) > 10 * len(seeds)
    assert sum(report.read for report in reports) > 5 * len(seeds)
