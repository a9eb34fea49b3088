"""Kafka Streams: a word count with a repartition topic, a state store and its changelog."""

import collections
from pathlib import Path

import pytest

from tests.e2e.test_fleet import FleetOfProcesses
from tests.ecosystem.running import Running, eventually, newest_values
from tests.ecosystem.trials import tried
from tests.support.apache_kafka import VERSION
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.java import compiled
from tests.support.maven import Unavailable

PROGRAM = Path(__file__).parent / "programs" / "StreamsCount.java"
WORDS = ("bucket", "broker", "lane", "segment", "offset")


def lines(first: int, count: int) -> list[str]:
    return [f"{WORDS[n % 5]} {WORDS[n % 3]} {WORDS[n % 2]}" for n in range(first, first + count)]


def counted(some: list[str]) -> dict[bytes, bytes]:
    words = collections.Counter(word for line in some for word in line.split())
    return {word.encode(): b"%d" % count for word, count in words.items()}


@tried(
    "Kafka Streams",
    VERSION,
    "a word count over a repartition topic and a state store; a broker of three is killed on "
    "the way; a second instance restores the state from the changelog; all counts are exact",
    always=True,
)
def test_streams(fleet: FleetOfProcesses, tmp_path: Path) -> None:
    try:
        command = compiled(PROGRAM, f"org.apache.kafka:kafka-streams:{VERSION}")
    except Unavailable as reason:
        pytest.skip(str(reason))
    client = Confluent(fleet.bootstrap)
    client.create_topic("lines", 4)
    client.create_topic("counts", 2)
    sent = lines(0, 200)

    def send(some: list[str]) -> None:
        client.produce("lines", [Record(n % 4, None, line.encode()) for n, line in enumerate(some)])

    send(sent)
    with Running([*command, fleet.bootstrap, str(tmp_path / "one")], tmp_path / "one.txt") as app:
        eventually(app, lambda: newest_values(fleet.bootstrap, "counts") == counted(sent))
        fleet.brokers[0].kill()
        fleet.brokers[0].start()
        more = lines(200, 300)
        send(more)
        sent += more
        eventually(app, lambda: newest_values(fleet.bootstrap, "counts") == counted(sent))
        assert app.end() == 0, app.said()

    more = lines(500, 100)
    send(more)
    sent += more
    with Running([*command, fleet.bootstrap, str(tmp_path / "two")], tmp_path / "two.txt") as app:
        eventually(app, lambda: newest_values(fleet.bootstrap, "counts") == counted(sent))
        assert app.end() == 0, app.said()
