"""Clients that know nothing newer than Kafka 0.8.2, 0.9 or 0.10 among those of today."""

import itertools
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.e2e.conftest import AGAINST
from tests.support import old_wire, wire
from tests.support.broker import KafscaleProcess
from tests.support.clients import CLIENTS
from tests.support.clients.base import Client, ClientError, Record, Stored
from tests.support.clients.old import OLD_CLIENTS, RELEASES
from tests.support.java import SOURCES, compiled
from tests.support.maven import Unavailable
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.skipif(
    AGAINST == "apache", reason="Apache Kafka 4 has forgotten the old formats"
)

CODECS = tuple(old_wire.CODECS)
OLD = pytest.mark.parametrize("release", RELEASES)
BY = pytest.mark.parametrize("name", OLD_CLIENTS)
MODERN = ("confluent", "kafka-python", "aiokafka")
THEN_MS = 1_600_000_000_000
_names = itertools.count()

SHAPES = (
    Record(0, b"key", b"value", (), THEN_MS),
    Record(0, None, b"no key", (), THEN_MS + 1),
    Record(0, b"no value", None, (), THEN_MS - 5),
    Record(0, b"", b"", (), THEN_MS + 70_000),
    Record(0, bytes(range(256)), b"x" * 100_000, (), THEN_MS + 2),
    *(
        Record(0, b"%d" % n, b"value %d " % n + b"." * (n % 90), (), THEN_MS + n)
        for n in range(300)
    ),
)


def topic_name(purpose: str) -> str:
    # librdkafka cannot read very short answers to the oldest metadata request.
    return f"{purpose}-with-a-rather-long-name-{next(_names)}"


def as_read(rows: list[Record], magic: int, base: int = 0) -> list[Stored]:
    return [
        Stored(0, base + at, row.key, row.value, (), (row.timestamp_ms or 0) if magic else -1)
        for at, row in enumerate(rows)
    ]


def timeless(rows: list[Stored]) -> list[Stored]:
    return [replace(row, timestamp_ms=-1, headers=()) for row in rows]


def batches_of(broker: BrokerProcess, topic: str) -> list[wire.Batch]:
    with socket.create_connection(("127.0.0.1", broker.port)) as sock:
        sock.sendall(wire.fetch(topic, 0, 0, 1, 50 << 20))
        error, _, records = wire.fetched(wire.read_answer(sock)[1])
    assert error == 0
    return list(wire.batches(records))


@pytest.fixture(scope="module")
def admin(client_named: Callable[[str], Client]) -> Client:
    return client_named("confluent")


@BY
@OLD
def test_what_an_old_client_writes_every_client_reads(
    broker: BrokerProcess,
    client_named: Callable[[str], Client],
    admin: Client,
    name: str,
    release: str,
) -> None:
    topic = topic_name("written")
    admin.create_topic(topic, 1)
    writer, magic = OLD_CLIENTS[name](broker.bootstrap, release), RELEASES[release]
    wanted: list[Stored] = []
    for codec in CODECS:
        offsets = writer.produce(topic, list(SHAPES), codec)
        assert offsets == list(range(len(wanted), len(wanted) + len(SHAPES)))
        wanted += as_read(list(SHAPES), magic, len(wanted))
    stored = {batch.codec for batch in batches_of(broker, topic)}
    assert stored == set(old_wire.CODECS.values())
    for reader in MODERN:
        found = client_named(reader).consume(topic, [0], len(wanted))
        if magic:
            assert [replace(row, headers=()) for row in found] == wanted
        assert timeless(found) == timeless(wanted)
    for other in OLD_CLIENTS:
        for old in RELEASES:
            found = OLD_CLIENTS[other](broker.bootstrap, old).consume(topic, [0], len(wanted))
            if magic and RELEASES[old]:
                assert found == wanted
            assert timeless(found) == timeless(wanted)


@BY
@OLD
@pytest.mark.parametrize("codec", CODECS)
def test_an_old_client_reads_what_a_new_one_wrote(
    broker: BrokerProcess, admin: Client, name: str, release: str, codec: str
) -> None:
    topic = topic_name(f"read-{codec}")
    admin.create_topic(topic, 1)
    rows = [replace(row, headers=(("left", b"out"),)) for row in SHAPES]
    rows += [Record(0, None, b"%06d" % n * 20, (), THEN_MS + n) for n in range(20_000)]
    assert len(admin.produce(topic, rows, codec)) == len(rows)
    wanted = as_read(rows, RELEASES[release])
    reader: Any = OLD_CLIENTS[name](broker.bootstrap, release)
    assert timeless(reader.consume(topic, [0], len(wanted))) == timeless(wanted)
    # From the middle of a batch on.
    found = reader.consume(topic, [0], len(wanted) - 12_345, start=12_345)
    assert timeless(found) == timeless(wanted[12_345:])
    if RELEASES[release]:
        assert found == wanted[12_345:]


# -- Apache's own clients of the time ----------------------------------------------------------

JAVA = {"0.8.2.2": 0, "0.9.0.1": 0, "0.10.2.2": 1}
JAVA_ROWS = [(None if n % 3 == 0 else b"key %d" % n, b"value number %d" % n) for n in range(1000)]


def run_java(version: str, program: str, *arguments: str) -> list[str]:
    try:
        command = compiled(SOURCES / program, f"org.apache.kafka:kafka-clients:{version}")
    except Unavailable as reason:
        pytest.skip(f"kafka-clients {version}: {reason}")
    run = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.splitlines()


@pytest.mark.parametrize("version", JAVA)
def test_what_the_java_clients_of_old_write_is_read_by_all(
    broker: BrokerProcess, client_named: Callable[[str], Client], admin: Client, version: str
) -> None:
    topic = topic_name("java")
    admin.create_topic(topic, 1)
    since_ms = int(time.time() * 1000)
    count = len(JAVA_ROWS)
    for number, codec in enumerate(CODECS):
        said = run_java(version, "OldProducer.java", broker.bootstrap, topic, codec, str(count))
        assert [int(line) for line in said] == list(range(number * count, (number + 1) * count))
    assert {b.codec for b in batches_of(broker, topic)} == set(old_wire.CODECS.values())
    found = admin.consume(topic, [0], len(CODECS) * count)
    assert [(row.key, row.value) for row in found] == JAVA_ROWS * len(CODECS)
    times = {row.timestamp_ms for row in found}
    if JAVA[version]:
        assert since_ms <= min(times) <= max(times) <= time.time() * 1000
    for release in RELEASES:
        reader = OLD_CLIENTS["kafka-python"](broker.bootstrap, release)
        again = reader.consume(topic, [0], len(found))
        assert [(row.key, row.value) for row in again] == JAVA_ROWS * len(CODECS)


@pytest.mark.parametrize("version", [version for version in JAVA if version != "0.8.2.2"])
def test_the_java_consumers_of_old_read_what_is_written_today(
    broker: BrokerProcess, admin: Client, version: str
) -> None:
    topic = topic_name("for-java")
    admin.create_topic(topic, 1)
    for codec in CODECS:
        admin.produce(topic, [Record(0, key, value) for key, value in JAVA_ROWS], codec)
    total = len(CODECS) * len(JAVA_ROWS)
    for start in (0, 1500, total - 1):
        said = run_java(
            version, "OldConsumer.java", broker.bootstrap, topic, str(start), str(total - start)
        )
        assert said == [
            f"{start + n}\t{'null' if key is None else key.decode()}\t{value.decode()}"
            for n, (key, value) in enumerate((JAVA_ROWS * len(CODECS))[start:])
        ]


@OLD
def test_a_reader_with_too_small_a_limit_does_not_hang(
    broker: BrokerProcess, admin: Client, release: str
) -> None:
    topic = topic_name("limit")
    admin.create_topic(topic, 1)
    rows = [Record(0, None, bytes(50_000), (), THEN_MS) for _ in range(4)]
    admin.produce(topic, rows)
    reader = OLD_CLIENTS["kafka-python"](broker.bootstrap, release)
    found = reader.consume(topic, [0], 4, max_partition_fetch_bytes=100)  # type: ignore[call-arg]
    assert [row.offset for row in found] == [0, 1, 2, 3]


@OLD
def test_zstd_ends_in_an_error_that_names_it(
    broker: BrokerProcess, admin: Client, release: str
) -> None:
    topic = topic_name("zstd")
    admin.create_topic(topic, 1)
    admin.produce(topic, [Record(0, None, b"x" * 1000)] * 100, "zstd")
    reader = OLD_CLIENTS["kafka-python"](broker.bootstrap, release)
    with pytest.raises(ClientError, match=r"(?i)unsupported.?compression|76"):
        reader.consume(topic, [0], 1)


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafscaleProcess]:
    """A broker that hands out no format above 1."""
    settings = tmp_path_factory.mktemp("capped") / "kafscale.yaml"
    settings.write_text("topics:\n  messageFormatVersion: 0.10.2\n")
    with KafscaleProcess(env={"KAFSCALE_CONFIG": str(settings)}) as broker:
        yield broker


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", MODERN)
def test_clients_of_today_read_a_topic_capped_at_an_old_format(
    capped: KafscaleProcess, name: str, codec: str
) -> None:
    client = CLIENTS[name](capped.bootstrap)
    try:
        topic = topic_name("capped")
        client.create_topic(topic, 1)
        since_ms = int(time.time() * 1000)
        rows = [replace(row, timestamp_ms=since_ms + n) for n, row in enumerate(SHAPES)]
        offsets = client.produce(topic, rows, codec)
        assert offsets == list(range(len(rows)))
        assert client.consume(topic, [0], len(rows)) == as_read(rows, 1)
    finally:
        client.close()
