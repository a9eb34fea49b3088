"""Three brokers on one etcd and one bucket: any of them may leave, die, or lose etcd under load."""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient

from tests.e2e.conftest import AGAINST, watched
from tests.e2e.test_kill import wait_for_answers
from tests.support import etcd
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Client, ClientError, Record
from tests.support.clients.confluent import Confluent
from tests.support.clients.java import Java4
from tests.support.clients.kafka_python import KafkaError, KafkaProducer
from tests.support.history import problems
from tests.support.load import Load, read_all
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.seaweed import SeaweedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka has no etcd"),
]
SIZE = 3
PARTITIONS = 12
LEASE_S = 3
PATIENCE_S = 120.0


# In the first one every broker has a part of every topic here; test runners may come back.
_namespaces = itertools.chain(["fleet"], (f"fleet-{number}" for number in itertools.count()))


class FleetOfProcesses:
    """Brokers 0, 1, 2 on the same etcd and bucket."""

    def __init__(self, folder: Path, server: etcd.EtcdCluster, bucket: SeaweedServer) -> None:
        self.etcd = server
        shared = {
            "KAFSCALE_ETCD_ENDPOINTS": server.endpoints[0],
            "KAFSCALE_ETCD_LEASE_TTL": f"{LEASE_S}s",
            "KAFSCALE_FLUSH_INTERVAL_MS": "20",
            **bucket.broker_environment(next(_namespaces)),
        }
        self.pulsar_http_ports = [free_port() for _ in range(SIZE)]
        self.brokers = [
            KafscaleProcess(
                folder / f"broker-{number}",
                {**shared, "KAFSCALE_BROKER_ID": str(number)},
                [f"pulsar.httpPort={port}"],
            )
            for number, port in enumerate(self.pulsar_http_ports)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def leaders(self, topic: str, asked: KafscaleProcess | None = None) -> dict[int, int]:
        """What one broker, or whichever answers, says about who leads."""
        admin = AdminClient({"bootstrap.servers": (asked or self).bootstrap, "log_level": 0})
        found = admin.list_topics(topic, timeout=30).topics[topic].partitions
        return {number: int(row.leader) for number, row in found.items()}

    def wait_for_members(self, *ids: int, topic: str) -> None:
        """Until every living broker says that exactly these lead, and says it alike."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            views = [self.leaders(topic, one) for one in self.brokers if one.running]
            if all(view == views[0] for view in views) and set(views[0].values()) == set(ids):
                return
            assert time.monotonic() < deadline, f"leaders are {views}"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, seaweed_server: SeaweedServer
) -> Iterator[FleetOfProcesses]:
    """One for all tests: each leaves all three brokers running."""
    if reason := etcd.missing():
        pytest.skip(reason)
    with ExitStack() as undo:
        server = undo.enter_context(etcd.EtcdCluster())
        started = FleetOfProcesses(tmp_path_factory.mktemp("fleet"), server, seaweed_server)
        # Most of a start is loading libraries. A child dies with the thread that has started it.
        at_once = undo.enter_context(ThreadPoolExecutor(SIZE))
        list(at_once.map(lambda one: undo.enter_context(watched(one)), started.brokers))
        yield started


def test_clients_find_every_partition_and_group_whichever_broker_they_ask(
    fleet: FleetOfProcesses,
) -> None:
    first = Confluent(fleet.brokers[0].bootstrap)
    first.create_topic("shared", PARTITIONS)
    fleet.wait_for_members(0, 1, 2, topic="shared")
    first.produce("shared", [Record(number, None, b"%d" % number) for number in range(PARTITIONS)])
    last = Confluent(fleet.brokers[2].bootstrap)
    found = last.consume("shared", list(range(PARTITIONS)), PARTITIONS)
    assert sorted(int(stored.value or b"") for stored in found) == list(range(PARTITIONS))
    for number in range(6):
        Confluent(fleet.brokers[number % SIZE].bootstrap).commit(
            f"g{number}", "shared", {0: number}
        )
        asked = Confluent(fleet.brokers[(number + 1) % SIZE].bootstrap)
        assert asked.committed(f"g{number}", "shared", 0) == number


class Reader(Thread):
    """A member of a group, default settings; remembers what it read and what it was told."""

    def __init__(self, client: Client, topic: str) -> None:
        super().__init__(daemon=True)
        self.values: set[bytes] = set()
        self.errors: list[str] = []
        self._client, self._topic = client, topic
        self._leaving = Event()

    def run(self) -> None:
        member = self._client.subscribe(f"readers-{self._client.name}", self._topic)
        while not self._leaving.is_set():
            try:
                self.values.update(stored.value or b"" for stored in member.poll())
            except ClientError as problem:
                self.errors.append(str(problem))
        member.leave()

    def finish(self) -> None:
        self._leaving.set()
        self.join()
        self._client.close()


def readers_of(fleet: FleetOfProcesses, topic: str) -> list[Reader]:
    """The two families of clients that most others are made of."""
    found = [Reader(Confluent(fleet.bootstrap), topic)]
    try:
        found.append(Reader(Java4(fleet.bootstrap), topic))
    except Unavailable as reason:
        print(f"no Java client: {reason}")
    for reader in found:
        reader.start()
    return found


class KafkaPythonLoad(Thread):
    """Another family of clients, default settings, one producer that lives through everything."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap, self.topic = bootstrap, topic
        self.sent = 0
        self.errors: list[str] = []
        self._leaving = Event()
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","))

    def run(self) -> None:
        while not self._leaving.is_set():
            futures = [
                self._producer.send(self.topic, b"%d" % self.sent, partition=number)
                for number in range(PARTITIONS)
            ]
            for future in futures:
                try:
                    future.get(PATIENCE_S)
                    self.sent += 1
                except KafkaError as problem:
                    self.errors.append(repr(problem))

    def finish(self) -> None:
        self._leaving.set()
        self.join()
        self._producer.close()
        stored = read_all(self.bootstrap, self.topic, PARTITIONS)
        assert self.errors == []
        assert sum(map(len, stored.values())) == self.sent > 0


def loads_for(fleet: FleetOfProcesses, topic: str) -> list[Load]:
    loads = [
        Load("idempotent", fleet.bootstrap, topic, PARTITIONS, idempotent=True),
        Load("plain", fleet.bootstrap, topic, PARTITIONS, idempotent=False),
    ]
    # One request in flight means one per broker: when a log moves there are two, and without
    # sequences a test cannot tell which was first.
    loads[1].history.in_order = False
    for load in loads:
        load.pause_s = 0.02  # enough is always under way, and there is less to check
        load.start()
    wait_for_answers(loads, 100)
    return loads


def check(fleet: FleetOfProcesses, topic: str, loads: list[Load], readers: list[Reader]) -> None:
    """Nothing is lost, doubled or moved, no producer saw an error, readers have seen it all."""
    assert [load.finish() for load in loads] == [0] * len(loads)
    assert [load.errors for load in loads] == [[]] * len(loads)
    stored = read_all(fleet.bootstrap, topic, PARTITIONS)
    assert problems([load.history for load in loads], stored)[:20] == []
    wanted = {value for rows in stored.values() for _, value in rows}
    deadline = time.monotonic() + PATIENCE_S
    for reader in readers:
        while not reader.values >= wanted:
            assert time.monotonic() < deadline, f"{len(wanted - reader.values)} records not read"
            time.sleep(0.1)
        reader.finish()
        assert reader.errors == []


def is_ready(broker: KafscaleProcess) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{broker.metrics_port}/ready", timeout=10) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def test_brokers_leave_and_come_back_in_turn_and_no_client_hears_of_it(
    fleet: FleetOfProcesses,
) -> None:
    Confluent(fleet.bootstrap).create_topic("rolling", PARTITIONS)
    loads = loads_for(fleet, "rolling")
    Confluent(fleet.bootstrap).create_topic("rolling-too", PARTITIONS)
    readers = readers_of(fleet, "rolling")
    other = KafkaPythonLoad(fleet.bootstrap, "rolling-too")
    other.start()
    for number, broker in enumerate(fleet.brokers):
        began = time.monotonic()
        assert broker.stop() == 0
        print(f"broker {number} left in {time.monotonic() - began:.2f} s")
        fleet.wait_for_members(*({0, 1, 2} - {number}), topic="rolling")
        wait_for_answers(loads, 100)
        broker.start()
        fleet.wait_for_members(0, 1, 2, topic="rolling")
        wait_for_answers(loads, 100)
    other.finish()
    check(fleet, "rolling", loads, readers)


def test_what_a_killed_broker_had_is_taken_over_and_one_that_lost_etcd_comes_back(
    fleet: FleetOfProcesses,
) -> None:
    Confluent(fleet.bootstrap).create_topic("killed", PARTITIONS)
    loads = loads_for(fleet, "killed")
    readers = readers_of(fleet, "killed")
    fleet.brokers[1].kill()
    began = time.monotonic()
    fleet.wait_for_members(0, 2, topic="killed")
    print(f"taken over in {time.monotonic() - began:.2f} s")
    wait_for_answers(loads, 100)
    fleet.brokers[1].start()
    fleet.wait_for_members(0, 1, 2, topic="killed")
    wait_for_answers(loads, 100)
    # Without etcd brokers stop serving before others could take over, and then begin again.
    fleet.etcd.pause()
    deadline = time.monotonic() + PATIENCE_S
    while any(is_ready(broker) for broker in fleet.brokers):
        assert time.monotonic() < deadline, "still ready without etcd"
        time.sleep(0.1)
    fleet.etcd.resume()
    fleet.wait_for_members(0, 1, 2, topic="killed")
    wait_for_answers(loads, 100)
    check(fleet, "killed", loads, readers)


def test_a_broker_whose_id_is_taken_stops_and_says_why(
    fleet: FleetOfProcesses, tmp_path: Path
) -> None:
    old = fleet.brokers[0]
    impostor = KafscaleProcess(tmp_path / "impostor", old.extra_env)
    with watched(impostor):
        deadline = time.monotonic() + PATIENCE_S
        while old.running:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "another broker has registered as broker 0" in old.tail()
        while not is_ready(impostor):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    old.start()
