"""Virtual and shared topics with unmodified clients: no difference but the number of objects.

Next door: topics that have a shared log in common (test_shared.py).
"""

import itertools
import json
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.conftest import clients_of, watched
from tests.e2e.test_cli import said
from tests.support.broker import (
    KafscaleProcess,
    SharedKafscaleProcess,
    VirtualKafscaleProcess,
)
from tests.support.clients import CLIENTS
from tests.support.clients.base import Client, Record
from tests.support.clients.confluent import Confluent

PARTITIONS = 7
_names = (f"virtual-{number}" for number in itertools.count())


@pytest.fixture(scope="module", params=[VirtualKafscaleProcess, SharedKafscaleProcess])
def broker(request: pytest.FixtureRequest) -> Iterator[KafscaleProcess]:
    with watched(request.param()) as own:
        assert isinstance(own, KafscaleProcess)
        yield own


@pytest.fixture(scope="module")
def client_named(broker: KafscaleProcess) -> Iterator[Callable[[str], Client]]:
    with clients_of(broker) as get:
        yield get


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_writes_and_reads_every_partition(
    name: str, client_named: Callable[[str], Client]
) -> None:
    client, topic = client_named(name), next(_names)
    client_named("confluent").create_topic(topic, PARTITIONS)
    wanted = [
        Record(partition, b"k", b"%d-%d" % (partition, turn))
        for turn in range(3)
        for partition in range(PARTITIONS)
    ]
    client.produce(topic, wanted)
    found = client.consume(topic, list(range(PARTITIONS)), len(wanted))
    assert sorted((row.partition, row.offset, row.value) for row in found) == sorted(
        (partition, turn, b"%d-%d" % (partition, turn))
        for partition in range(PARTITIONS)
        for turn in range(3)
    )


def test_the_commands_say_where_partitions_lie() -> None:
    with watched(VirtualKafscaleProcess()) as broker:
        assert isinstance(broker, KafscaleProcess)
        client, topic = Confluent(broker.bootstrap), next(_names)
        client.create_topic(topic, 100)
        client.produce(topic, [Record(p, b"k", b"v%d" % p) for p in range(100)])
        told = json.loads(said(broker, "topics", "describe", topic, "--json"))
        assert [(row["log"], row["lane"]) for row in told["partitions"][98:]] == [(0, 49), (1, 49)]
        listed = said(broker, "segments", "list", topic, "-p", "99", "--json").splitlines()
        assert [(row["log"], row["first"], row["last"]) for row in map(json.loads, listed)] == [
            (1, 0, 0)
        ]


def test_its_objects_are_those_of_two_logs_and_all_survives_a_kill(
    broker: KafscaleProcess,
) -> None:
    client = Confluent(broker.bootstrap)
    topic = next(_names)
    client.create_topic(topic, 100)
    client.produce_idempotently(topic, [Record(p, b"k", b"v%d" % p) for p in range(100)])
    is_shared = isinstance(broker, SharedKafscaleProcess)
    folder = broker.data / "objects" / "default" / ("@shared" if is_shared else topic)
    assert sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) == ["0", "1"]
    client.create_partitions(topic, 120)
    assert client.delete_records(topic, 99, 1) == 1
    client.commit("readers", topic, {98: 1})
    broker.kill()
    broker.start()
    again = Confluent(broker.bootstrap)
    again.produce(topic, [Record(119, b"k", b"new")])
    found = again.consume(topic, list(range(120)), 100)
    assert {row.partition: row.value for row in found} == {
        **{p: b"v%d" % p for p in range(99)},
        119: b"new",
    }
    assert (again.earliest(topic, 99), again.latest(topic, 99)) == (1, 1)
    assert again.committed("readers", topic, 98) == 1
    assert again.list_topics()[topic] == 120
