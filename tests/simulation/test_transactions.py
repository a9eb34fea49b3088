"""Some seeds with transactions, and bugs on purpose. `--transactions` runs more of them."""

from collections.abc import Sequence

import pytest

from tests.simulation import planted
from tests.simulation.__main__ import describe
from tests.simulation.planted import Planting
from tests.simulation.runner import run_transactional

BLOCK = 5
SEEDS = 20
# Far ones that have found a fault once.
FAR_SEEDS = (269, 491)


@pytest.mark.parametrize(
    "seeds",
    [*(range(first, first + BLOCK) for first in range(0, SEEDS, BLOCK)), FAR_SEEDS],
    ids=str,
)
def test_transactions_are_whole_whatever_happens(seeds: Sequence[int]) -> None:
    reports = [run_transactional(seed) for seed in seeds]
    broken = [describe(one, with_transactions=True) for one in reports if one.problems]
    assert not broken, "\n".join(broken)
    # A simulation in which nothing happens would find nothing.
    assert sum(report.transactions for report in reports) > len(seeds)


@pytest.mark.parametrize(
    ("plant", "first", "kinds"),
    [
        (
            planted.transaction_that_is_done_too_early,
            0,
            "torn, lost commit, unstable, markers, stuck",
        ),
        (planted.gate_that_asks_no_row, 0, "torn, lost commit"),
        (planted.owner_that_aborts_what_a_row_claims, 0, "torn, lost commit, markers"),
        (planted.broker_that_does_not_say_what_it_holds, 10, "torn, lost commit"),
        (planted.metadata_without_guards, 5, "torn, lost commit, markers, zombie, offsets"),
        (planted.offsets_that_are_forgotten, 0, "offsets"),
        (planted.reader_that_sees_open_transactions, 0, "aborted read, unstable"),
        (planted.manifest_that_forgets_transactions, 0, "aborted read, unstable, hanging, torn"),
        (planted.instance_that_does_not_fence, 0, "zombie, aborted read, torn, lost commit"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_bug_in_transactions_is_found(plant: Planting, first: int, kinds: str) -> None:
    found = ""
    for seed in range(first, first + 25):
        with plant():
            report = run_transactional(seed)
        if report.problems:
            found = report.problems[0].partition(":")[0]
            break
    assert found in kinds.split(", "), f"{found or 'nothing'} was found"
