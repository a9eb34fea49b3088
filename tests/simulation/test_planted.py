"""The simulation is tried with bugs on purpose: each must be found within so many seeds."""

from collections.abc import Iterable

import pytest

from tests.simulation import planted
from tests.simulation.planted import Planting
from tests.simulation.runner import run
from tests.simulation.scenario import draw

ANY = [seed for seed in range(30) if not draw(seed).is_moving]
MOVING = range(2, 402, 5)
GROUPS = range(3, 153, 5)  # see scenario.draw
SLEEPY = range(4, 154, 5)
SHARING = [seed for seed in range(12, 80) if draw(seed).has_neighbours and not draw(seed).is_moving]
DEAF = [seed for seed in range(130, 400) if any(blow.kind == "deaf" for blow in draw(seed).blows)]
TO_AND_FRO = [seed for seed in range(17, 180) if draw(seed).is_moving]
WITH_PULSAR = [seed for seed in range(100) if draw(seed).has_pulsar]
CALLED_OFF = [seed for seed in range(950, 1300) if draw(seed).is_moving]


@pytest.mark.parametrize(
    ("plant", "seeds", "kinds"),
    [
        (planted.broker_that_answers_before_the_put, ANY, "lost, watermark back"),
        (planted.opening_that_ignores_the_tail, ANY, "lost"),
        (planted.group_that_lets_every_client_commit, GROUPS, "commit undone"),
        (
            planted.broker_that_ignores_the_end_of_its_lease,
            MOVING,
            "watermark back, two owners, trouble",
        ),
        (planted.broker_that_takes_over_at_once, MOVING, "watermark back, two owners"),
        (planted.log_that_forgets_producers, SLEEPY, "duplicate, reordered"),
        (planted.log_that_forgets_names, WITH_PULSAR, "duplicate, reordered"),
        (planted.opening_that_forgets_names, WITH_PULSAR, "duplicate, reordered"),
        (planted.metadata_without_guards, SLEEPY, "commit undone, lost"),
        (planted.store_that_overwrites, SLEEPY, "overwritten, lost, stuck"),
        (planted.writer_that_takes_any_segment_for_its_own, SLEEPY, "lost"),
        (planted.writer_that_never_proves_its_tail, SLEEPY, "lost"),
        (planted.lanes_that_are_dealt_out_again, SHARING, "lost, unsent, stuck"),
        (planted.deletion_of_all_that_lies_where_the_topic_lay, SHARING, "lost"),
        (planted.retention_of_one_topic_for_all_its_neighbours, SHARING, "lost"),
        (planted.reclaiming_that_takes_the_living_for_dead, SHARING, "lost, stuck"),
        (planted.seal_that_the_writer_ignores, TO_AND_FRO, "lost, watermark back, stuck"),
        (planted.move_that_forgets_producers, TO_AND_FRO, "duplicate, trouble"),
        (
            planted.move_that_leaves_the_last_records_behind,
            TO_AND_FRO,
            "lost, watermark back",
        ),
        (planted.move_that_is_called_off_too_late, CALLED_OFF, "stuck"),
        (
            planted.name_that_is_given_away_while_its_old_logs_are_open,
            DEAF,
            "trouble, watermark back",
        ),
        (planted.end_that_is_said_but_not_at_the_tail, DEAF, "trouble, watermark back"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_bug_is_found(plant: Planting, seeds: Iterable[int], kinds: str) -> None:
    found = ""
    for seed in seeds:
        with plant():
            report = run(seed)
        if report.problems:
            found = report.problems[0].partition(":")[0]
            break
    assert found in kinds.split(", "), f"{found or 'nothing'} was found"
