"""The commands while a broker is dead and no other broker has taken over yet."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker import KafscaleProcess
from tests.support.etcd import EtcdCluster

LEASE_S = 8
PARTITIONS, RECORDS = 8, 80
WITHIN_S = 90


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[KafscaleProcess]]:
    with ExitStack() as undo:
        endpoint = undo.enter_context(EtcdCluster()).endpoints[0]
        yield [
            undo.enter_context(
                KafscaleProcess(
                    tmp_path / str(number),
                    {
                        "KAFSCALE_ETCD_ENDPOINTS": endpoint,
                        "KAFSCALE_ETCD_LEASE_TTL": f"{LEASE_S}s",
                        "KAFSCALE_BROKER_ID": str(number),
                        "KAFSCALE_DATA_DIR": str(tmp_path / "data"),
                    },
                )
            )
            for number in range(2)
        ]


def test_a_topic_is_read_to_its_end_although_a_broker_has_just_died(
    brokers: list[KafscaleProcess],
) -> None:
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce("t", str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    found = admin.list_topics("t", timeout=30).topics["t"].partitions.values()
    assert {row.leader for row in found} == {0, 1}
    brokers[1].kill()
    command = [sys.executable, "-m", "kafscale.cli.main", "consume", "t", "-b", bootstrap]
    ran = subprocess.run(command, capture_output=True, timeout=WITHIN_S, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert sorted(map(int, ran.stdout.split())) == list(range(RECORDS))
