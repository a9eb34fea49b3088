"""Three brokers on one etcd and one bucket: any of them may leave, die, or lose etcd under load."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.e2e.conftest import AGAINST, watched
from tests.e2e.test_kill import wait_for_answers
from tests.support import etcd
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.history import problems
from tests.support.load import Load, read_all
from tests.support.seaweed import SeaweedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka has no etcd"),
]
SIZE = 3
PARTITIONS = 12
LEASE_S = 3
PATIENCE_S = 60.0


class FleetOfProcesses:
    """Brokers 0, 1, 2 on the same etcd and bucket."""

    def __init__(self, folder: Path, server: etcd.EtcdCluster, bucket: SeaweedServer) -> None:
        self.etcd = server
        shared = {
            "KAFSCALE_ETCD_ENDPOINTS": server.endpoints[0],
            "KAFSCALE_ETCD_LEASE_TTL": f"{LEASE_S}s",
            "KAFSCALE_FLUSH_INTERVAL_MS": "20",
            **bucket.broker_environment(f"fleet-{server.members[0].port}"),
        }
        self.brokers = [
            KafscaleProcess(
                folder / f"broker-{number}", {**shared, "KAFSCALE_BROKER_ID": str(number)}
            )
            for number in range(SIZE)
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


@pytest.fixture
def fleet(tmp_path: Path, seaweed_server: SeaweedServer) -> Iterator[FleetOfProcesses]:
    if reason := etcd.missing():
        pytest.skip(reason)
    with ExitStack() as undo:
        server = undo.enter_context(etcd.EtcdCluster())
        started = FleetOfProcesses(tmp_path, server, seaweed_server)
        for broker in started.brokers:
            undo.enter_context(watched(broker))
        yield started


@pytest.mark.timeout(180)
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
