"""Kafka Streams: a word count with a repartition topic, a state store and its changelog."""

import collections
from pathlib import Path

import pytest

from tests.e2e.test_fleet import FleetOfProcesses
from tests.ecosystem.running import Running, eventually, newest_values, read_topic
from tests.ecosystem.trials import tried
from tests.support.apache_kafka import VERSION
from tests.support.broker import KafscaleProcess
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


def told(bootstrap: str) -> dict[bytes, list[bytes]]:
    """Every count that was ever told and committed, word by word in its order."""
    counts: dict[bytes, list[bytes]] = collections.defaultdict(list)
    for word, count in read_topic(bootstrap, "counts"):
        counts[word or b""].append(count or b"")
    return dict(counts)


def every_count(some: list[str]) -> dict[bytes, list[bytes]]:
    """With exactly once each word is told 1, 2, 3 and so on, and no count twice."""
    last = {word: int(count) for word, count in counted(some).items()}
    return {word: [b"%d" % n for n in range(1, count + 1)] for word, count in last.items()}


@tried(
    "Kafka Streams, exactly once",
    VERSION,
    "the word count with `exactly_once_v2` and two instances; one instance is killed by kill -9, "
    "then the broker, and an instance takes over; each count is there once, in order",
)
def test_streams_exactly_once(broker: KafscaleProcess, tmp_path: Path) -> None:
    try:
        command = compiled(PROGRAM, f"org.apache.kafka:kafka-streams:{VERSION}")
    except Unavailable as reason:
        pytest.skip(str(reason))
    client = Confluent(broker.bootstrap)
    client.create_topic("lines", 4)
    client.create_topic("counts", 2)
    sent: list[str] = []

    def send(count: int) -> None:
        some = lines(len(sent), count)
        client.produce("lines", [Record(n % 4, None, line.encode()) for n, line in enumerate(some)])
        sent.extend(some)

    def instance(name: str) -> Running:
        arguments = [broker.bootstrap, str(tmp_path / name), "exactly-once"]
        return Running([*command, *arguments], tmp_path / f"{name}.txt")

    send(200)
    with instance("one") as one, instance("two") as two:
        eventually(two, lambda: told(broker.bootstrap) == every_count(sent))
        send(2_000)
        eventually(two, lambda: sum(map(len, told(broker.bootstrap).values())) > 1_000)
        one.kill()
        send(500)
        eventually(two, lambda: told(broker.bootstrap) == every_count(sent))
        send(1_000)
        broker.kill()
        broker.start()
        with instance("three") as three:
            send(500)
            eventually(three, lambda: told(broker.bootstrap) == every_count(sent))
            two.kill()
            send(100)
            eventually(three, lambda: told(broker.bootstrap) == every_count(sent))
            assert three.end() == 0, three.said()
