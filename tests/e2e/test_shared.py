"""Topics that have a shared log in common: what happens to one is no matter of the others.

Next door: what each client notices of it, which is nothing (test_virtual.py).
"""

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.conftest import watched
from tests.support.broker import SharedKafscaleProcess
from tests.support.clients.base import ClientError, Record
from tests.support.clients.confluent import Confluent

PARTITIONS = 3
EACH = 20
_pairs = ((f"restless-{number}", f"quiet-{number}") for number in itertools.count())


class OneSharedLog(SharedKafscaleProcess):
    """Neighbours cannot be nearer; what may go goes soon."""

    config = (
        "storage:\n  placement: shared\n  sharedLogs: 1\n  housekeepingInterval: 1s\n"
        "  gracePeriod: 2s\n  rollupObjects: 5\n"
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[OneSharedLog]:
    with watched(OneSharedLog()) as own:
        assert isinstance(own, OneSharedLog)
        yield own


class Neighbours:
    """Two topics, written alternately, so that objects of the log have records of both."""

    def __init__(self, broker: OneSharedLog) -> None:
        self.broker = broker
        self.restless, self.quiet = next(_pairs)
        self._written = 0
        self.client = Confluent(broker.bootstrap)
        for topic in (self.restless, self.quiet):
            self.client.create_topic(topic, PARTITIONS)
        self.write()

    def write(self) -> None:
        turns = range(self._written, self._written + EACH)
        for some in (turns[::2], turns[1::2]):
            for topic in (self.restless, self.quiet):
                rows = [record for turn in some for record in _row(topic, turn)]
                self.client.produce_idempotently(topic, rows)
        self._written += EACH

    def kill(self) -> None:
        self.broker.kill()
        self.broker.start()
        self.client = Confluent(self.broker.bootstrap)

    def check_the_quiet_one(self) -> None:
        wanted = [
            (row.partition, row.value)
            for turn in range(self._written)
            for row in _row(self.quiet, turn)
        ]
        found = self.client.consume(self.quiet, list(range(PARTITIONS)), len(wanted))
        assert sorted((row.partition, row.value) for row in found) == sorted(wanted)
        for partition in range(PARTITIONS):
            assert self.client.earliest(self.quiet, partition) == 0
            assert self.client.latest(self.quiet, partition) == self._written


def _row(topic: str, turn: int) -> list[Record]:
    return [Record(p, b"k", b"%s-%d-%d" % (topic.encode(), p, turn)) for p in range(PARTITIONS)]


@pytest.fixture
def neighbours(broker: OneSharedLog) -> Neighbours:
    return Neighbours(broker)


def wait_until(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_a_neighbour_is_deleted(neighbours: Neighbours) -> None:
    neighbours.client.delete_topic(neighbours.restless)
    neighbours.check_the_quiet_one()
    neighbours.kill()
    assert neighbours.restless not in neighbours.client.list_topics()
    time.sleep(3.5)  # what is deleted is gone by now, a look at it and the grace period later
    neighbours.check_the_quiet_one()


def test_a_neighbour_is_created_again_and_knows_nothing_of_before(neighbours: Neighbours) -> None:
    restless = neighbours.restless
    neighbours.client.commit("group", restless, {0: 7})
    neighbours.client.delete_topic(restless)
    neighbours.client.create_topic(restless, PARTITIONS)
    assert neighbours.client.latest(restless, 0) == 0
    assert neighbours.client.committed("group", restless, 0) is None
    assert neighbours.client.produce_idempotently(restless, [Record(0, b"k", b"new")]) == [0]
    neighbours.kill()
    (found,) = neighbours.client.consume(restless, [0], 1)
    assert (found.offset, found.value) == (0, b"new")
    assert neighbours.client.latest(restless, 1) == 0
    neighbours.check_the_quiet_one()


def test_a_neighbour_gets_more_partitions(neighbours: Neighbours) -> None:
    restless = neighbours.restless
    neighbours.client.create_partitions(restless, PARTITIONS + 2)
    new = [Record(PARTITIONS + at, b"k", b"new-%d" % at) for at in range(2)]
    assert neighbours.client.produce_idempotently(restless, new) == [0, 0]
    neighbours.write()
    neighbours.kill()
    found = neighbours.client.consume(restless, [PARTITIONS, PARTITIONS + 1], 2)
    assert sorted(row.value or b"" for row in found) == [b"new-0", b"new-1"]
    neighbours.check_the_quiet_one()


def test_records_of_a_neighbour_are_deleted(neighbours: Neighbours) -> None:
    restless = neighbours.restless
    assert neighbours.client.delete_records(restless, 0, EACH) == EACH
    assert neighbours.client.delete_records(restless, 1, 5) == 5
    neighbours.check_the_quiet_one()
    neighbours.kill()
    assert [neighbours.client.earliest(restless, p) for p in range(PARTITIONS)] == [EACH, 5, 0]
    found = neighbours.client.consume(restless, [1], EACH - 5)
    assert [row.offset for row in found] == list(range(5, EACH))
    neighbours.check_the_quiet_one()


def test_a_neighbour_expires(neighbours: Neighbours) -> None:
    restless = neighbours.restless
    neighbours.client.alter_config(restless, "SET", "retention.ms", "1000")
    wait_until(
        lambda: all(neighbours.client.earliest(restless, p) == EACH for p in range(PARTITIONS))
    )
    neighbours.check_the_quiet_one()
    neighbours.kill()
    assert neighbours.client.latest(restless, 0) == EACH
    assert neighbours.client.produce_idempotently(restless, [Record(0, b"k", b"on")]) == [EACH]
    neighbours.check_the_quiet_one()


def test_a_lane_is_never_used_twice_however_often_names_are(broker: OneSharedLog) -> None:
    client = Confluent(broker.bootstrap)
    for turn in range(3):
        client.create_topic("again", 2)
        value = b"turn-%d" % turn
        assert client.produce_idempotently("again", [Record(1, b"k", value)]) == [0]
        if turn == 1:
            broker.kill()
            broker.start()
            client = Confluent(broker.bootstrap)
        (found,) = client.consume("again", [1], 1)
        assert (found.offset, found.value) == (0, value)
        client.delete_topic("again")
    with pytest.raises(ClientError):
        client.latest("again", 0)
