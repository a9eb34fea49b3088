"""Fluvio's own clients, unmodified, beside Kafka's: one broker, the same topics."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.e2e.conftest import AGAINST
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.npm import node_program
from tests.support.ports import free_port
from tests.support.venv import folder_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka does not speak Fluvio"),
]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/protocols/fluvio.md"
DRIVER = ROOT / "tests/support/python/fluvio_driver.py"
JS_DRIVER = ROOT / "tests/support/js/fluvio/fluvio_driver.js"
NEWEST, OLDER = "0.21.0", "0.16.5"
NPM = "0.14.9"
WITHIN_S = 120
# A client that waits for what does not come says so soon.
PATIENCE = {"FLV_METADATA_TIMEOUT": "20000", "FLV_SOCKET_WAIT": "20"}


class FluvioBroker(KafscaleProcess):
    """A broker with its Fluvio ports on free ones."""

    def __init__(self, folder: Path) -> None:
        self.sc_port, self.spu_port = free_port(), free_port()
        ports = {
            "KAFSCALE_FLUVIO_ENABLED": "true",
            "KAFSCALE_FLUVIO_SC_PORT": str(self.sc_port),
            "KAFSCALE_FLUVIO_SPU_PORT": str(self.spu_port),
        }
        super().__init__(folder, ports)

    @property
    def control(self) -> str:
        return f"127.0.0.1:{self.sc_port}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FluvioBroker]:
    with FluvioBroker(tmp_path_factory.mktemp("fluvio")) as started:
        yield started


def python_client(version: str, program: str | Path = DRIVER) -> tuple[list[str], dict[str, str]]:
    """The command of a program with this version of the client, and its environment.

    Of its dependencies the client imports one; another cannot be built for newer Pythons.
    """
    try:
        packages = folder_with(f"fluvio=={version}", "humanfriendly")
    except Unavailable as reason:
        pytest.skip(f"fluvio {version}: {reason}")
    return [sys.executable, str(program)], {"PYTHONPATH": packages}


def npm_client() -> tuple[list[str], dict[str, str]]:
    try:
        return node_program(JS_DRIVER), {}
    except Unavailable as reason:
        pytest.skip(f"@fluvio/client {NPM}: {reason}")


def run(client: tuple[list[str], dict[str, str]], *words: str) -> list[dict[str, Any]]:
    """Run a client's program to its end; gives the lines that it shows."""
    command, environment = client
    done = subprocess.run(
        [*command, *words],
        env={**os.environ, **PATIENCE, **environment},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def wait_for(lines: Iterable[str], shown: dict[str, Any], last: str) -> None:
    """Take what a program shows until it shows a step."""
    for line in lines:
        step = json.loads(line)
        name = step.pop("step")
        shown[name] = step
        if name == last:
            return
    raise AssertionError(f"the program ended before {last!r}; it showed {shown}")


def kafscale(*words: str) -> str:
    command = [sys.executable, "-m", "kafscale.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def kafka_writes(broker: FluvioBroker, topic: str, *records: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for record in records:
        producer.produce(topic, partition=0, **record)
    assert producer.flush(60) == 0


def kafka_reads(broker: FluvioBroker, topic: str, count: int) -> list[tuple[Any, Any, int]]:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    found = []
    with contextlib.closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        while len(found) < count:
            message = consumer.poll(WITHIN_S)
            assert message is not None
            assert message.error() is None
            found.append((message.key(), message.value(), message.offset()))
    return found


def test_each_client_reads_what_each_wrote(broker: FluvioBroker) -> None:
    newest, older, npm = python_client(NEWEST), python_client(OLDER), npm_client()
    kafka_writes(
        broker,
        "shared",
        {"key": b"k0", "value": b"kafka"},
        {"value": b"no key"},
        {"key": b"k2", "value": None},
        {"key": b"k3", "value": b"headers", "headers": [("h", b"1")]},
    )
    assert run(newest, broker.control, "produce", "shared", "default", "n=newest", "m=again") == [
        {"offset": 4},
        {"offset": 5},
    ]
    run(older, broker.control, "produce", "shared", "default", "o=older")
    run(npm, broker.control, "produce", "shared", "default", "j=npm")
    rows: list[tuple[str | None, str | None]] = [
        ("k0", "kafka"),
        (None, "no key"),
        ("k2", None),
        ("k3", "headers"),
        ("n", "newest"),
        ("m", "again"),
        ("o", "older"),
        ("j", "npm"),
    ]
    assert kafka_reads(broker, "shared", len(rows)) == [
        (key and key.encode(), value and value.encode(), offset)
        for offset, (key, value) in enumerate(rows)
    ]
    for client in (newest, older, npm):
        lines = run(client, broker.control, "read", "shared", "beginning", str(len(rows)))
        assert [(line["key"], line["value"]) for line in lines] == [
            (key, value or "") for key, value in rows
        ]
        assert [line.get("offset", at) for at, line in enumerate(lines)] == list(range(len(rows)))


def test_the_newest_client_can_do_what_the_page_says(broker: FluvioBroker) -> None:
    command, environment = python_client(NEWEST)
    program = subprocess.Popen(
        [*command, broker.control, "features", "orders", "later"],
        env={**os.environ, **PATIENCE, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdin is not None
        assert program.stdout is not None
        shown: dict[str, Any] = {}
        wait_for(program.stdout, shown, "committed")
        groups = kafscale("groups", "describe", "shop", "-b", broker.bootstrap)
        program.stdin.write("\n")
        program.stdin.flush()
        wait_for(program.stdout, shown, "ready")
        kafka_writes(broker, "later", {"value": b"first"})
        program.stdin.write("\n")
        program.stdin.flush()
        last = program.stdout.read()
        assert program.wait(WITHIN_S) == 0
    assert last == '{"step": "end"}\n'
    assert kafka_reads(broker, "later", 2)[1][1] == b"new"
    assert shown["create again"]["text"] == "Topic already exists"
    for number, codec in enumerate(("Gzip", "Snappy", "Lz4", "Zstd")):
        assert shown[codec]["offsets"] == [3 * number, 3 * number + 1, 3 * number + 2]
    assert shown["to the end"]["offsets"] == list(range(12))
    assert shown["from the end"]["offsets"] == [10, 11]
    assert shown["committed"]["rows"] == [["shop", "orders", 0, 4]]
    assert shown["resumed"]["offsets"] == list(range(5, 12))
    assert shown["deleted"]["rows"] == 0
    assert shown["live"]["value"] == "live"
    assert "SmartModules are not supported" in shown["smart module"]["text"]
    assert "Topic not found" in shown["unknown topic"]["text"]
    assert re.search(r"orders +0 +5\b", groups)


def test_nothing_acknowledged_is_lost_with_a_broker(broker: FluvioBroker) -> None:
    newest = python_client(NEWEST)
    kafka_writes(broker, "kept", {"value": b"first"})
    pairs = [f"k{number}=v{number}" for number in range(20)]
    shown = run(newest, broker.control, "produce", "kept", "default", *pairs)
    assert [line["offset"] for line in shown] == list(range(1, 21))
    broker.kill()
    broker.start()
    lines = run(newest, broker.control, "read", "kept", "5", "16")
    assert [(line["offset"], line["value"]) for line in lines] == [
        (number + 1, f"v{number}") for number in range(4, 20)
    ]


def test_the_program_on_the_page_runs(broker: FluvioBroker, tmp_path: Path) -> None:
    (text,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program = tmp_path / "example.py"
    text = text.replace("127.0.0.1:9003", broker.control).replace('"orders"', '"of-the-page"')
    program.write_text(text + "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n")
    command, environment = python_client(NEWEST, program)
    done = subprocess.run(
        command,
        env={**os.environ, **PATIENCE, **environment},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.stdout == "0 alice 3 apples\n", done.stderr


def test_the_page_names_the_clients_that_are_tried() -> None:
    page = PAGE.read_text("utf-8")
    for row in (f"| PyPI `fluvio` {NEWEST} |", f"| PyPI `fluvio` {OLDER} |", f"{NPM} |"):
        assert row in page
