"""A cluster sleeps after a time without clients, and not while it starts."""

import pytest

from kafscale.operator.planning.idleness import Quiet, seconds_of_duration
from kafscale.operator.planning.seen_cluster import SeenBroker
from tests.unit.operator.examples import facts


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200)])
def test_durations_have_units(text: str, seconds: float) -> None:
    assert seconds_of_duration(text) == seconds


def test_quiet_begins_when_the_last_client_has_gone() -> None:
    quiet = Quiet()
    assert quiet.observe(facts(3), 3, 10) == 0
    assert quiet.observe(facts(3), 3, 40) == 30
    assert quiet.observe(facts(3, connections=1), 3, 50) == 0
    assert quiet.observe(facts(3), 3, 60) == 0
    assert quiet.observe(facts(3), 3, 65) == 5
    quiet.wake()
    assert quiet.observe(facts(3), 3, 70) == 0


@pytest.mark.parametrize(
    "said",
    [
        facts(2),  # one does not answer
        {},
        {**facts(2), "production-broker-2": SeenBroker(reasons=("start: it is starting",))},
    ],
)
def test_a_fleet_that_is_not_whole_is_not_quiet(said: dict[str, SeenBroker]) -> None:
    quiet = Quiet()
    quiet.observe(facts(3), 3, 10)
    assert quiet.observe(said, 3, 100) == 0
