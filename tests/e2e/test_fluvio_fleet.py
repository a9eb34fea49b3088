"""Fluvio's client on two brokers: both are SPUs, and either may be killed."""

import itertools
import json
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.e2e.conftest import AGAINST, watched
from tests.faults.checker import check
from tests.faults.history import OK, Found, History, Poll, Send
from tests.support import etcd
from tests.support.cargo import BUILD_AND_TEST_S
from tests.support.clients.confluent import Confluent
from tests.support.fluvio_clients import FluvioBroker, FluvioClient, python_client, rust_client
from tests.support.maven import Unavailable
from tests.support.seaweed import SeaweedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(BUILD_AND_TEST_S),
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka does not speak Fluvio"),
]
PARTITIONS = 4
PATIENCE_S = 120.0
_namespaces = (f"fluvio-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, seaweed_server: SeaweedServer
) -> Iterator[list[FluvioBroker]]:
    if reason := etcd.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("fluvio-fleet")
    with ExitStack() as undo:
        server = undo.enter_context(etcd.EtcdCluster())
        shared = {
            "KAFSCALE_ETCD_ENDPOINTS": server.endpoints[0],
            "KAFSCALE_ETCD_LEASE_TTL": "3s",
            "KAFSCALE_FLUSH_INTERVAL_MS": "20",
            **seaweed_server.broker_environment(next(_namespaces)),
        }
        brokers = [
            FluvioBroker(folder / f"broker-{number}", {**shared, "KAFSCALE_BROKER_ID": str(number)})
            for number in range(2)
        ]
        at_once = undo.enter_context(ThreadPoolExecutor(2))
        list(at_once.map(lambda one: undo.enter_context(watched(one)), brokers))
        yield brokers


@pytest.fixture(scope="module")
def client() -> FluvioClient:
    try:
        return python_client()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def crate() -> FluvioClient:
    """The client of PyPI does not tell the partition of a record."""
    try:
        return rust_client()
    except Unavailable as reason:
        pytest.skip(str(reason))


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


def create(broker: FluvioBroker, topic: str) -> Confluent:
    """A topic of which each broker leads a part."""
    kafka = Confluent(broker.bootstrap)
    kafka.create_topic(topic, PARTITIONS)
    until(lambda: kafka.list_topics().get(topic) == PARTITIONS, f"{topic} is there")
    return kafka


def leaders(broker: FluvioBroker, topic: str) -> dict[int, int]:
    """The leaders of a topic's partitions, as a broker tells Kafka clients."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    rows = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    return {number: row.leader for number, row in rows.items()}


class Follower(threading.Thread):
    """Takes the lines of a program that follows a topic."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self.program = program
        self.rows: list[dict[str, Any]] = []

    def run(self) -> None:
        assert self.program.stdout is not None
        self.rows.extend(json.loads(line) for line in self.program.stdout)

    def offsets(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for row in self.records():
            found[row["partition"]].append(row["offset"])
        return found

    def records(self) -> list[dict[str, Any]]:
        return [row for row in list(self.rows) if "offset" in row]

    def has_read(self, end: int) -> bool:
        return any(row["offset"] == end - 1 for row in self.records())


class LineWriter:
    """A program that writes lines, and the notes of what it was told."""

    def __init__(self, program: subprocess.Popen[str], history: History) -> None:
        self._program = program
        self._history = history
        self._keys: dict[int, str] = {}  # by the partition that the client chooses for it
        self._numbers = itertools.count()

    def go_on_with(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def tell(self, key: str, value: str) -> dict[str, Any]:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(f"{key} {value}\n")
        self._program.stdin.flush()
        answer: dict[str, Any] = json.loads(self._program.stdout.readline())
        return answer

    def learn_keys(self) -> int:
        """Find a key for each partition; gives how many records were written."""
        for number in itertools.count():
            self._keys.setdefault(self.tell(f"k{number}", "learning")["partition"], f"k{number}")
            if len(self._keys) == PARTITIONS:
                return number + 1
        raise AssertionError

    def write_round(self) -> None:
        """A record to each partition."""
        number = next(self._numbers)
        for partition, key in self._keys.items():
            note = Send("writer", partition, number, time.monotonic())
            self._history.sends.append(note)
            answer = self.tell(key, note.value)
            note.ended_s = time.monotonic()
            if "offset" in answer:
                note.outcome, note.offset = OK, answer["offset"]
            else:
                note.error = answer["error"]

    def write_until_all_take(self, rounds: int = 1) -> None:
        """Write until every partition has acknowledged so many more records."""

        def acknowledged() -> list[int]:
            taken = self._history.acknowledged()
            return [sum(one.partition == p for one in taken) for p in range(PARTITIONS)]

        wanted = [count + rounds for count in acknowledged()]
        deadline = time.monotonic() + PATIENCE_S
        while any(now < end for now, end in zip(acknowledged(), wanted, strict=True)):
            assert time.monotonic() < deadline, "a partition takes no records"
            self.write_round()


def judge(
    history: History, kafka: Confluent, topic: str, ends: dict[int, int], learnt: int
) -> None:
    """Compare what clients saw with what is stored, read by a Kafka client."""
    for stored in kafka.consume(topic, list(range(PARTITIONS)), sum(ends.values())):
        value = (stored.value or b"").decode()
        history.found.append(Found(stored.partition, stored.offset, value))
    assert sum(one.value == "learning" for one in history.found) == learnt
    assert [one for one in check(history) if "'learning'" not in one.text] == []


def test_brokers_are_spus_and_leaders_those_of_kafka(
    fleet: list[FluvioBroker], client: FluvioClient
) -> None:
    kafka = create(fleet[0], "spread")
    for broker in fleet:  # whichever is asked, all partitions take records
        with client.start(broker.control, "write-lines", "spread") as program:
            history = History(PARTITIONS)
            writer = LineWriter(program, history)
            writer.learn_keys()
            writer.write_round()
            assert [send.error for send in history.sends] == [""] * PARTITIONS
            program.kill()
    assert len(kafka.consume("spread", list(range(PARTITIONS)), 2 * PARTITIONS)) >= 2 * PARTITIONS


def test_nothing_is_lost_or_read_twice_when_brokers_are_killed(
    fleet: list[FluvioBroker], client: FluvioClient, crate: FluvioClient
) -> None:
    create(fleet[0], "under-fire")
    history = History(PARTITIONS)
    control = fleet[0].control
    with (
        client.start(control, "write-lines", "under-fire") as writing,
        crate.start(control, "follow", "under-fire", "") as following,
    ):
        follower = Follower(following)
        follower.start()
        writer = LineWriter(writing, history)
        learnt = writer.learn_keys()
        writer.write_until_all_take(10)
        fleet[1].kill()  # its partitions move to the other one
        writer.write_until_all_take(10)
        fleet[1].start()
        writer.write_until_all_take(10)
        fleet[1].kill()
        fleet[1].start()
        writer.write_until_all_take(10)
        # A client that has seen the moves asks for leaders that have gone.
        kafka = Confluent(fleet[0].bootstrap)
        ends = {p: kafka.latest("under-fire", p) for p in range(PARTITIONS)}
        until(
            lambda: all(len(follower.offsets()[p]) >= end for p, end in ends.items()),
            f"the follower reads up to {ends}",
        )
        for program in (writing, following):
            program.kill()
    follower.join()
    assert follower.offsets() == {p: list(range(end)) for p, end in ends.items()}
    for row in follower.rows:
        history.polls.append(
            Poll("follower", 0, row["partition"], row["offset"], row["value"], 0.0)
        )
    judge(history, kafka, "under-fire", ends, learnt)


def test_nothing_is_lost_or_read_twice_when_the_control_address_is_killed(
    fleet: list[FluvioBroker], client: FluvioClient
) -> None:
    for broker in fleet:
        if not broker.running:  # a run before this one has failed
            broker.start()
    create(fleet[0], "control")
    until(lambda: set(leaders(fleet[0], "control").values()) == {0, 1}, "each leads a part")
    led = [p for p, leader in leaders(fleet[0], "control").items() if leader == 0]
    history = History(PARTITIONS)
    addresses = ",".join(broker.control for broker in fleet)  # the next one when a stream ends
    with ExitStack() as undo:

        def start(address: str, *words: str) -> subprocess.Popen[str]:
            program = undo.enter_context(client.start(address, *words))
            undo.callback(program.kill)
            return program

        def follow(address: str, partition: int, consumer: str = "") -> Follower:
            reader = Follower(start(address, "follow", "control", str(partition), consumer))
            reader.start()
            return reader

        writing = start(fleet[0].control, "write-lines", "control")
        writer = LineWriter(writing, history)
        learnt = writer.learn_keys()
        followers = [follow(addresses, partition) for partition in range(PARTITIONS)]
        keeper = follow(fleet[0].control, led[0], "keeper")
        writer.write_until_all_take(10)
        until(
            lambda: all(reader.records() for reader in (*followers, keeper)),
            "all streams have begun",
        )

        def kill_control() -> None:
            """Kill it. Two clients would try the old leaders on and on: their programs give up."""
            fleet[0].kill()
            moved = dict.fromkeys(range(PARTITIONS), 1)
            until(lambda: leaders(fleet[1], "control") == moved, "all partitions have moved")
            writing.kill()
            keeper.program.kill()

        killing = threading.Thread(target=kill_control)
        killing.start()
        with suppress(BrokenPipeError, json.JSONDecodeError):  # until its program has ended
            while True:
                writer.write_round()
        killing.join()
        writer.go_on_with(start(fleet[1].control, "write-lines", "control"))
        keeper_again = follow(fleet[1].control, led[0], "keeper")
        writer.write_until_all_take(10)
        kafka = Confluent(fleet[1].bootstrap)
        ends = {p: kafka.latest("control", p) for p in range(PARTITIONS)}
        until(
            lambda: all(one.has_read(ends[p]) for p, one in enumerate(followers)),
            f"the followers read up to {ends}",
        )
        until(lambda: keeper_again.has_read(ends[led[0]]), "the keeper reads up to the end")
    for reader in (*followers, keeper, keeper_again):
        reader.join()
    for partition, follower in enumerate(followers):
        rows = follower.records()
        assert [row["offset"] for row in rows] == list(range(ends[partition]))
        for row in rows:
            history.polls.append(
                Poll(f"follower {partition}", 0, partition, row["offset"], row["value"], 0.0)
            )
    kept = [row["offset"] for row in (*keeper.records(), *keeper_again.records())]
    # The record whose offset was being kept at the kill may come again.
    assert sorted(set(kept)) == list(range(ends[led[0]]))
    assert len(kept) - len(set(kept)) <= 1
    judge(history, kafka, "control", ends, learnt)
    fleet[0].start()
