"""Brokers whose metadata is in etcd: on files and on a bucket, with etcd killed under load."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.e2e.conftest import AGAINST, watched
from tests.e2e.test_kill import wait_for_answers
from tests.support import etcd
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.history import problems
from tests.support.load import Load, read_all
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka has no etcd"),
]
PARTITIONS = 3
TOPIC = "kept-by-etcd"


@pytest.fixture
def server() -> Iterator[etcd.EtcdCluster]:
    if reason := etcd.missing():
        pytest.skip(reason)
    with etcd.EtcdCluster(3) as started:
        yield started


@pytest.fixture(params=["files", "s3"])
def env(request: pytest.FixtureRequest, server: etcd.EtcdCluster) -> dict[str, str]:
    settings = {
        "KAFSCALE_ETCD_ENDPOINTS": ",".join(server.endpoints),
        # Longer than etcd is away here: what happens then is the matter of test_fleet.py.
        "KAFSCALE_ETCD_LEASE_TTL": "90s",
    }
    if request.param == "s3":
        namespace = f"etcd-{server.members[0].port}"
        settings |= request.getfixturevalue("seaweed_server").broker_environment(namespace)
    return settings


def broker_id(bootstrap: str) -> int:
    cluster = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30)
    (found,) = cluster.brokers
    assert cluster.controller_id == found
    return int(found)


def read_some(bootstrap: str) -> None:
    """Read from the beginning without committing: that would wait for etcd."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "some", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        messages = consumer.consume(10, timeout=30)
        assert [message.error() for message in messages] == [None] * 10
    finally:
        consumer.close()


def test_records_offsets_and_topics_survive_when_etcd_and_the_broker_are_killed(
    server: etcd.EtcdCluster, env: dict[str, str], tmp_path: Path
) -> None:
    with watched(KafscaleProcess(tmp_path / "broker", env)) as broker:
        client = Confluent(broker.bootstrap)
        client.create_topic(TOPIC, PARTITIONS)
        client.commit("group", TOPIC, {0: 1, 1: 2})
        loads = [
            Load("idempotent", broker.bootstrap, TOPIC, PARTITIONS, idempotent=True),
            Load("plain", broker.bootstrap, TOPIC, PARTITIONS, idempotent=False),
        ]
        for load in loads:
            load.start()
        wait_for_answers(loads, 200)
        for _ in range(3):
            server.kill()
            # Records do not pass through etcd.
            wait_for_answers(loads, 200)
            read_some(broker.bootstrap)
            server.start()
            wait_for_answers(loads, 200)
            client.commit("group", TOPIC, {2: len(loads[0].history.acknowledged)})
        committed = client.committed("group", TOPIC, 2)
        identity = broker_id(broker.bootstrap)
        broker.kill()
        server.kill()
        server.start()
        broker.start()
        wait_for_answers(loads, 200)
        assert [load.finish() for load in loads] == [0, 0]
        histories = [load.history for load in loads]
        assert problems(histories, read_all(broker.bootstrap, TOPIC, PARTITIONS))[:20] == []
        again = Confluent(broker.bootstrap)
        assert again.committed("group", TOPIC, 1) == 2
        assert again.committed("group", TOPIC, 2) == committed
        assert broker_id(broker.bootstrap) == identity == 1001
        # What the broker alone has is gone without loss, or was never there.
        assert broker.data.exists() == ("KAFSCALE_S3_BUCKET" not in env)
        assert not (broker.data / "metadata.db").exists()
    assert json.loads(server.ctl("get", f"/kafscale/topics/{TOPIC}/config", "--print-value-only"))


def test_what_needs_etcd_waits_for_it_and_then_works(
    server: etcd.EtcdCluster, tmp_path: Path
) -> None:
    env = {"KAFSCALE_ETCD_ENDPOINTS": ",".join(server.endpoints)}
    with watched(KafscaleProcess(tmp_path / "broker", env)) as broker:
        client = Confluent(broker.bootstrap)
        client.produce("before", [Record(0, None, b"1")])
        server.kill()
        # A new producer id, and a topic that does not exist yet: both need etcd.
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        producer.produce("after", b"2")
        assert producer.flush(2) == 1
        server.start()
        assert producer.flush(60) == 0
        assert [stored.value for stored in client.consume("after", [0], 1)] == [b"2"]


def test_two_brokers_get_two_ids(server: etcd.EtcdCluster, tmp_path: Path) -> None:
    env = {"KAFSCALE_ETCD_ENDPOINTS": ",".join(server.endpoints)}
    ids = []
    for name in ("one", "two"):
        with watched(KafscaleProcess(tmp_path / name, env)) as broker:
            ids.append(broker_id(broker.bootstrap))
    assert ids == [1001, 1002]


def serve(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafscale.cli.main", "serve", "--port", "0", *flags]
    return subprocess.run(
        command, env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False
    )


def test_a_broker_that_cannot_reach_etcd_says_so_in_one_line(tmp_path: Path) -> None:
    dead = f"127.0.0.1:{free_port()}"
    ended = serve(
        *("--data-dir", str(tmp_path), "--set", f"etcd.endpoints={dead}"),
        *("--set", "etcd.requestTimeout=1s"),
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"kafscale: etcd ({dead}) does not answer: ")


def test_doctor_asks_etcd(server: etcd.EtcdCluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafscale.cli.main", "doctor", "--data-dir", str(tmp_path)]
    command += ["--port", "0", "--metrics-port", "0", "--set"]
    well = subprocess.run(
        [*command, f"etcd.endpoints={server.endpoints[0]}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"ok    metadata      etcd at {server.endpoints[0]} answers" in well.stdout
    server.kill()
    ill = subprocess.run(
        [*command, f"etcd.endpoints={server.endpoints[0]}", "--set", "etcd.requestTimeout=500ms"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "fail  metadata" in ill.stdout
    assert ill.returncode == 1
