"""Fluvio's own clients, unmodified, beside Kafka's and Pulsar's: one broker, the same topics."""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import AGAINST
from tests.support import fluvio_clients, pulsar_client
from tests.support.cargo import BUILD_AND_TEST_S
from tests.support.fluvio_clients import (
    CRATE,
    NEWEST,
    NPM,
    OLDER,
    WITHIN_S,
    FluvioBroker,
    FluvioClient,
    python_client,
    rust_client,
)
from tests.support.maven import Unavailable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(BUILD_AND_TEST_S),
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka does not speak Fluvio"),
]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/protocols/fluvio.md"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FluvioBroker]:
    often = ("storage.housekeepingInterval=200ms",)
    with FluvioBroker(tmp_path_factory.mktemp("fluvio"), settings=often) as started:
        yield started


def available(make: Callable[[], FluvioClient]) -> FluvioClient:
    """A client, or the test is skipped."""
    try:
        return make()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def newest() -> FluvioClient:
    return available(python_client)


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


def pulsar_writes(broker: FluvioBroker, topic: str, *values: str) -> None:
    with contextlib.closing(pulsar_client.connect(broker)) as client:
        producer = client.create_producer(topic)
        for value in values:
            producer.send(value.encode(), partition_key="p")


def pulsar_reads(broker: FluvioBroker, topic: str, count: int) -> list[bytes]:
    with contextlib.closing(pulsar_client.connect(broker)) as client:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        return [reader.read_next(pulsar_client.PATIENCE_MS).data() for _ in range(count)]


def all_clients() -> tuple[dict[str, FluvioClient], list[str]]:
    """The clients by name, and why some of them are not there."""
    clients: dict[str, FluvioClient] = {}
    missing = []
    for name, make in fluvio_clients.EVERYONE.items():
        try:
            clients[name] = make()
        except Unavailable as reason:
            missing.append(f"{name}: {reason}")
    return clients, missing


def test_each_client_reads_what_each_wrote(broker: FluvioBroker) -> None:
    clients, missing = all_clients()
    kafka_writes(
        broker,
        "shared",
        {"key": b"k0", "value": b"kafka"},
        {"value": b"no key"},
        {"key": b"k2", "value": None},
        {"key": b"k3", "value": b"headers", "headers": [("h", b"1")]},
    )
    rows: list[tuple[str | None, str | None]] = [
        ("k0", "kafka"),
        (None, "no key"),
        ("k2", None),
        ("k3", "headers"),
    ]
    pulsar_writes(broker, "shared", "pulsar")
    rows.append(("p", "pulsar"))
    for name, client in clients.items():
        own = [(name.split()[0], name), ("again", name)]
        shown = client.run(
            broker.control, "produce", "shared", "default", *("=".join(pair) for pair in own)
        )
        assert [line["offset"] for line in shown if line["offset"] is not None] in (
            [len(rows), len(rows) + 1],
            [],  # older ones are not told
        )
        rows += own
    assert kafka_reads(broker, "shared", len(rows)) == [
        (key and key.encode(), value and value.encode(), offset)
        for offset, (key, value) in enumerate(rows)
    ]
    assert pulsar_reads(broker, "shared", len(rows)) == [
        (value or "").encode() for _, value in rows
    ]
    for client in clients.values():
        lines = client.run(broker.control, "read", "shared", "beginning", str(len(rows)))
        assert [(line["key"], line["value"]) for line in lines] == [
            (key, value or "") for key, value in rows
        ]
        assert [line.get("offset", at) for at, line in enumerate(lines)] == list(range(len(rows)))
    if missing:
        pytest.skip("without " + "; ".join(missing))


def make_holes(broker: FluvioBroker, topic: str) -> None:
    """Write each of two keys twice, and wait until key compaction has removed the older ones."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(WITHIN_S)
    for value in (b"old", b"new"):
        kafka_writes(broker, topic, {"key": b"a", "value": value}, {"key": b"b", "value": value})
    time.sleep(1.2)
    kafka_writes(broker, topic, {"key": b"c", "value": b"begins a segment"})
    deadline = time.monotonic() + WITHIN_S
    while kafka_reads(broker, topic, 1)[0][2] != 2:
        assert time.monotonic() < deadline, "the older records are still there"
        time.sleep(0.2)


def transact(broker: FluvioBroker, topic: str) -> None:
    """Transactions that commit and abort in turn; the last one aborts."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "fluvio"})
    producer.init_transactions(WITHIN_S)
    for number, is_good in enumerate((True, False, True, False)):
        producer.begin_transaction()
        producer.produce(topic, b"committed" if is_good else b"aborted", b"t%d" % number, 0)
        assert producer.flush(WITHIN_S) == 0
        end = producer.commit_transaction if is_good else producer.abort_transaction
        end(WITHIN_S)


def test_each_client_reads_on_behind_holes_and_sees_nothing_aborted(
    broker: FluvioBroker, newest: FluvioClient
) -> None:
    clients, missing = all_clients()
    make_holes(broker, "holes")
    transact(broker, "holes")  # offsets 5 to 12: each record, and the marker behind it
    rows = [
        (2, "a", "new"),
        (3, "b", "new"),
        (4, "c", "begins a segment"),
        (5, "t0", "committed"),
        (9, "t2", "committed"),
    ]

    def shown(lines: list[dict[str, Any]]) -> list[tuple[int, Any, Any]]:
        return [
            (line.get("offset", offset), line["key"], line["value"])  # npm's tells no offset
            for line, (offset, _, _) in zip(lines, rows, strict=True)
        ]

    for client in clients.values():
        assert shown(client.run(broker.control, "read", "holes", "beginning", "5")) == rows
    # The last thing in the log is an aborted record: a client that reads up to the end gets there.
    assert shown(newest.run(broker.control, "read-all", "holes")) == rows
    if missing:
        pytest.skip("without " + "; ".join(missing))


@pytest.mark.parametrize("name", [name for name in fluvio_clients.EVERYONE if "crate" not in name])
def test_each_client_creates_lists_and_deletes_topics(broker: FluvioBroker, name: str) -> None:
    client = available(fluvio_clients.EVERYONE[name])
    topic = f"made-{list(fluvio_clients.EVERYONE).index(name)}"
    listed, end = client.run(broker.control, "topics", topic)
    assert listed == {"step": "listed", "names": [topic]}
    assert end == {"step": "end"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert topic not in admin.list_topics(timeout=WITHIN_S).topics


def test_the_newest_client_can_do_what_the_page_says(
    broker: FluvioBroker, newest: FluvioClient
) -> None:
    with newest.start(broker.control, "features", "orders", "later") as program:
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
    assert shown["read by itself"]["offsets"] == list(range(12))
    assert shown["committed by itself"]["row"] == ["orders", 0, 11]
    assert shown["live"]["value"] == "live"
    assert "my-filter" in shown["smart module"]["text"]
    assert "Topic not found" in shown["unknown topic"]["text"]
    assert re.search(r"orders +0 +5\b", groups)


def test_the_crate_can_do_what_the_page_says(broker: FluvioBroker) -> None:
    crate = available(rust_client)
    steps = {
        line.pop("step"): line for line in crate.run(broker.control, "administer", "of-the-crate")
    }
    assert steps["create again"]["text"] == "Topic already exists"
    assert steps["listed"]["rows"] == [["of-the-crate", 5]]
    assert "end" in steps
    kafka_writes(broker, "packed", {"value": b"first"})
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        shown = crate.run(broker.control, "produce", "packed", codec, "k=v", "no key")
        assert [line["offset"] for line in shown] == [2 * number + 1, 2 * number + 2]
    assert kafka_reads(broker, "packed", 11)[1:] == [
        row
        for number in range(5)
        for row in ((b"k", b"v", 2 * number + 1), (None, b"no key", 2 * number + 2))
    ]
    reading = crate.start(broker.control, "follow", "packed", "crate")
    assert reading.stdout is not None
    with reading:
        for offset in range(11):
            assert json.loads(reading.stdout.readline())["offset"] == offset
        kafka_writes(broker, "packed", {"value": b"live"})
        assert json.loads(reading.stdout.readline())["value"] == "live"
        reading.kill()
    groups = kafscale("groups", "describe", "crate", "-b", broker.bootstrap)
    assert re.search(r"packed +0 +1[12]\b", groups), groups


def test_nothing_acknowledged_is_lost_with_a_broker(
    broker: FluvioBroker, newest: FluvioClient
) -> None:
    kafka_writes(broker, "kept", {"value": b"first"})
    pairs = [f"k{number}=v{number}" for number in range(20)]
    shown = newest.run(broker.control, "produce", "kept", "default", *pairs)
    assert [line["offset"] for line in shown] == list(range(1, 21))
    broker.kill()
    broker.start()
    lines = newest.run(broker.control, "read", "kept", "5", "16")
    assert [(line["offset"], line["value"]) for line in lines] == [
        (number + 1, f"v{number}") for number in range(4, 20)
    ]


def test_the_program_on_the_page_runs(broker: FluvioBroker, tmp_path: Path) -> None:
    (text,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program = tmp_path / "example.py"
    text = text.replace("127.0.0.1:9003", broker.control).replace('"orders"', '"of-the-page"')
    program.write_text(text + "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n")
    client = available(lambda: python_client(program=program))
    with client.start() as running:
        shown, _ = running.communicate(timeout=WITHIN_S)
    assert shown == "0 alice 3 apples\n"


def test_the_page_names_the_clients_that_are_tried() -> None:
    page = PAGE.read_text("utf-8")
    for row in (
        f"| PyPI `fluvio` {NEWEST} |",
        f"| PyPI `fluvio` {OLDER} |",
        f"| npm `@fluvio/client` {NPM} |",
        f"| crate `fluvio` {CRATE} |",
    ):
        assert row in page
