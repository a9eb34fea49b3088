"""Nothing is lost: the broker is killed again and again under load, every promise is checked."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import AGAINST, watched
from tests.support.clients.confluent import Confluent
from tests.support.history import problems
from tests.support.load import Load, read_all
from tests.support.process import BrokerProcess

KILLS = int(os.environ.get("KILLS", "15"))
SEED = int(os.environ.get("KILL_SEED", "20261"))
PARTITIONS = 4
TOPIC = "under-fire"

STORES = ["files"] if AGAINST == "apache" else ["files", "s3"]


@pytest.fixture(params=STORES)
def mortal(
    request: pytest.FixtureRequest, kind: type[BrokerProcess], tmp_path: Path
) -> Iterator[BrokerProcess]:
    env: dict[str, str] = {}
    if request.param == "s3":
        env = request.getfixturevalue("seaweed_server").broker_environment("kill")
    with watched(kind(tmp_path / "broker", env)) as broker:
        yield broker


def wait_for_answers(loads: list[Load], count: int, within_s: float = 120.0) -> None:
    """Until each producer has had this many more acknowledgements."""
    wanted = [len(load.history.acknowledged) + count for load in loads]
    deadline = time.monotonic() + within_s
    while any(
        len(load.history.acknowledged) < end for load, end in zip(loads, wanted, strict=True)
    ):
        assert time.monotonic() < deadline, "the producers came to a halt"
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_acknowledged_record_is_lost_doubled_or_moved_when_the_broker_is_killed(
    mortal: BrokerProcess,
) -> None:
    dice = random.Random(SEED)
    Confluent(mortal.bootstrap).create_topic(TOPIC, PARTITIONS)
    loads = [
        Load("idempotent", mortal.bootstrap, TOPIC, PARTITIONS, idempotent=True),
        Load("plain", mortal.bootstrap, TOPIC, PARTITIONS, idempotent=False),
    ]
    for load in loads:
        load.start()
    open_at_kill = []
    for kill in range(KILLS):
        # Every third kill hits the broker while it opens its logs, the others in full work.
        if kill % 3:
            wait_for_answers(loads, dice.randint(1, 1000))
        time.sleep(dice.uniform(0.0, 0.5))
        open_at_kill.append(sum(load.open_count for load in loads))
        mortal.kill()
        mortal.start()
    left = [load.finish() for load in loads]
    assert left == [0, 0]
    assert [load.errors for load in loads] == [[], []]
    # A test that killed an idle broker would prove nothing.
    assert sum(count > 0 for count in open_at_kill) > KILLS // 2
    assert all(len(load.history.acknowledged) > 100 * KILLS for load in loads)

    histories = [load.history for load in loads]
    for history in histories:
        print(f"{history.producer}: {len(history.acknowledged)} acknowledged, {KILLS} kills")
    print(f"without an answer at each kill: {open_at_kill}")
    assert problems(histories, read_all(mortal.bootstrap, TOPIC, PARTITIONS))[:20] == []
    mortal.kill()
    mortal.start()
    assert problems(histories, read_all(mortal.bootstrap, TOPIC, PARTITIONS))[:20] == []
