"""Kafka Connect, distributed: its configuration, offsets and status live in compacted topics."""

import json
import shutil
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.e2e.test_fleet import FleetOfProcesses
from tests.ecosystem.running import Running, eventually, read_topic
from tests.ecosystem.trials import tried
from tests.support.apache_kafka import VERSION
from tests.support.java import on_the_jvm
from tests.support.maven import Unavailable, classpath
from tests.support.ports import free_port

# What Kafka ships as config/connect-distributed.properties, but for addresses.
WORKER = """\
bootstrap.servers={bootstrap}
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
offset.flush.interval.ms=10000
listeners=HTTP://127.0.0.1:{port}
"""
WORKER_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
SILENCE = "org.slf4j:slf4j-nop:1.7.36"


class Worker(Running):
    """One worker, and questions to its REST interface."""

    def __init__(self, bootstrap: str, folder: Path, number: int) -> None:
        self._port = free_port()
        settings = folder / f"worker-{number}.properties"
        settings.write_text(WORKER.format(bootstrap=bootstrap, port=self._port))
        jars = classpath(
            f"org.apache.kafka:connect-runtime:{VERSION}",
            f"org.apache.kafka:connect-file:{VERSION}",
            f"org.apache.kafka:connect-json:{VERSION}",
            SILENCE,
        )
        command = on_the_jvm(jars, WORKER_CLASS, str(settings))
        super().__init__(command, folder / f"worker-{number}.txt")

    def put(self, connector: str, settings: dict[str, str]) -> bool:
        """Create or change a connector; whether the worker took it."""
        body = json.dumps(settings).encode()
        return self._ask("PUT", f"/connectors/{connector}/config", body) is not None

    def runs(self, connector: str) -> bool:
        """Whether a connector and its only task run."""
        status = self._ask("GET", f"/connectors/{connector}/status") or {}
        parts = [status.get("connector"), *status.get("tasks", [])]
        return len(parts) == 2 and all(part and part["state"] == "RUNNING" for part in parts)

    def _ask(self, verb: str, path: str, body: bytes | None = None) -> dict[str, object] | None:
        headers = {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self._port}{path}"
        try:
            with urlopen(Request(url, body, headers, method=verb), timeout=60) as answer:
                found: dict[str, object] = json.load(answer)
                return found
        except (URLError, ConnectionError, TimeoutError):
            return None  # it is starting, or in the middle of a rebalance


def file_connector(kind: str, **settings: str) -> dict[str, str]:
    name = f"org.apache.kafka.connect.file.FileStream{kind}Connector"
    return {"connector.class": name, "tasks.max": "1", **settings}


def write_lines(file: Path, first: int, count: int) -> None:
    with file.open("a") as lines:
        lines.writelines(f"line {number}\n" for number in range(first, first + count))


@tried(
    "Kafka Connect",
    VERSION,
    "a distributed worker copies a file into a topic and the topic into a file; a broker of "
    "three is killed on the way; a second worker resumes from the stored offsets; no line is "
    "missing or twice",
    always=True,
)
def test_connect(fleet: FleetOfProcesses, tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    copied = {"topic": "copied", "file": str(source)}

    def sank() -> list[str]:
        return sink.read_text().splitlines() if sink.exists() else []

    def wanted(count: int) -> list[str]:
        return [f"line {number}" for number in range(count)]

    write_lines(source, 0, 500)
    try:
        first = Worker(fleet.bootstrap, tmp_path, 1)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with first as worker:
        eventually(worker, lambda: worker.put("from-file", file_connector("Source", **copied)))
        into_file = file_connector("Sink", topics="copied", file=str(sink))
        eventually(worker, lambda: worker.put("into-file", into_file))
        eventually(worker, lambda: worker.runs("from-file") and worker.runs("into-file"))
        eventually(worker, lambda: sank() == wanted(500))
        fleet.brokers[0].kill()
        fleet.brokers[0].start()
        write_lines(source, 500, 500)
        eventually(worker, lambda: sank() == wanted(1000))
        worker.terminate()
    write_lines(source, 1000, 200)
    with Worker(fleet.bootstrap, tmp_path, 2) as worker:
        eventually(worker, lambda: sank() == wanted(1200))
        values = [
            json.loads(value or b"")["payload"]
            for _, value in read_topic(fleet.bootstrap, "copied")
        ]
        assert values == wanted(1200)
        worker.terminate()
