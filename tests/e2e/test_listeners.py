"""Two listeners with different advertised names: clients stay with the one they came in by."""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.e2e.conftest import AGAINST, watched
from tests.support import etcd
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.ports import free_port
from tests.support.seaweed import SeaweedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="the settings are Kafscale's"),
]
PARTITIONS = 6
PATIENCE_S = 120.0

# A test that is run again needs a namespace that no other metadata store has known.
_namespaces = (f"listeners-{number}" for number in itertools.count())


class ListeningProcess(KafscaleProcess):
    """A broker that clients inside call 127.0.0.1 and clients outside call localhost."""

    def __init__(
        self,
        folder: Path | None = None,
        env: dict[str, str] | None = None,
        *,
        has_outside: bool = True,
    ) -> None:
        super().__init__(folder, env)
        self.outside_port = free_port()
        self._has_outside = has_outside

    @property
    def outside(self) -> str:
        return f"localhost:{self.outside_port}"

    def environment(self) -> dict[str, str]:
        env = super().environment()
        del env["KAFSCALE_BROKER_PORT"]
        env["KAFSCALE_LISTENERS"] = f"INSIDE://127.0.0.1:{self.port}"
        if self._has_outside:
            env["KAFSCALE_LISTENERS"] += f",OUTSIDE://127.0.0.1:{self.outside_port}"
            env["KAFSCALE_ADVERTISED_LISTENERS"] = f"OUTSIDE://{self.outside}"
        return env


def brokers_told(bootstrap: str) -> dict[int, str]:
    """What a client is told about all brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    told = admin.list_topics(timeout=30).brokers
    return {number: f"{row.host}:{row.port}" for number, row in told.items()}


def leaders_told(bootstrap: str, topic: str) -> dict[int, int]:
    """What a client is told about who leads the partitions of a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    rows = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return {number: int(row.leader) for number, row in rows.items()}


def wait_for_leaders(bootstrap: str, topic: str, leaders: set[int]) -> dict[int, int]:
    """Until exactly these brokers lead partitions of the topic, as far as clients are told."""
    deadline = time.monotonic() + PATIENCE_S
    while set((told := leaders_told(bootstrap, topic)).values()) != leaders:
        assert time.monotonic() < deadline, f"leaders are {told}"
        time.sleep(0.05)
    return told


def write_and_read(bootstrap: str, topic: str, group: str, partitions: list[int]) -> None:
    """Everything a client needs addresses for: leaders and the coordinator of a group."""
    client = Confluent(bootstrap)
    client.produce(topic, [Record(number, None, b"%d" % number) for number in partitions])
    found = client.consume(topic, partitions, len(partitions))
    assert sorted(int(stored.value or b"") for stored in found) == partitions
    client.commit(group, topic, {partitions[0]: 1})
    assert client.committed(group, topic, partitions[0]) == 1
    client.close()


def test_clients_of_each_listener_get_its_own_addresses(tmp_path: Path) -> None:
    with watched(ListeningProcess(tmp_path)) as broker:
        assert isinstance(broker, ListeningProcess)
        for bootstrap, topic in ((broker.bootstrap, "inside"), (broker.outside, "outside")):
            assert list(brokers_told(bootstrap).values()) == [bootstrap]
            client = Confluent(bootstrap)
            client.create_topic(topic, PARTITIONS)
            client.close()
            write_and_read(bootstrap, topic, f"group-{topic}", list(range(PARTITIONS)))
        shown = broker.tail()
        assert f"OUTSIDE   {broker.outside}" in shown


@pytest.fixture
def fleet(tmp_path: Path, seaweed_server: SeaweedServer) -> Iterator[list[ListeningProcess]]:
    """Brokers 0 and 1 have both listeners, broker 2 has none for clients outside."""
    if reason := etcd.missing():
        pytest.skip(reason)
    with ExitStack() as undo:
        server = undo.enter_context(etcd.EtcdCluster())
        shared = {
            "KAFSCALE_ETCD_ENDPOINTS": server.endpoints[0],
            "KAFSCALE_FLUSH_INTERVAL_MS": "20",
            **seaweed_server.broker_environment(next(_namespaces)),
        }
        brokers = [
            ListeningProcess(
                tmp_path / f"broker-{number}",
                {**shared, "KAFSCALE_BROKER_ID": str(number)},
                has_outside=number != 2,
            )
            for number in range(3)
        ]
        at_once = undo.enter_context(ThreadPoolExecutor(3))
        list(at_once.map(lambda one: undo.enter_context(watched(one)), brokers))
        yield brokers


def test_brokers_of_a_fleet_are_found_by_the_name_of_the_listener(
    fleet: list[ListeningProcess],
) -> None:
    inside = {number: broker.bootstrap for number, broker in enumerate(fleet)}
    outside = {number: broker.outside for number, broker in enumerate(fleet[:2])}
    for number, broker in enumerate(fleet):
        assert brokers_told(broker.bootstrap) == inside
        if number != 2:
            assert brokers_told(broker.outside) == outside
    client = Confluent(fleet[0].bootstrap)
    client.create_topic("both", 4 * PARTITIONS)
    client.close()
    for broker in fleet:
        wait_for_leaders(broker.bootstrap, "both", {0, 1, 2})
    write_and_read(fleet[2].bootstrap, "both", "inside", list(range(PARTITIONS)))
    # For clients outside, what broker 2 leads has no leader.
    told = wait_for_leaders(fleet[0].outside, "both", {0, 1, -1})
    led = [number for number, leader in told.items() if leader in outside]
    client = Confluent(fleet[1].outside)
    client.produce("both", [Record(number, None, b"outside") for number in led])
    client.close()
