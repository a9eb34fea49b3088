"""Pulsar clients of several languages, unmodified, with their default settings.

Each reads what each has written, Kafka's client included: keys, values, null, properties, event
times, order, and the same ids for the writer and every reader.
"""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import watched
from tests.support.broker import KafscaleProcess
from tests.support.java import SOURCES, compiled
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.pulsar_client import read_by_kafka, unique
from tests.support.pulsar_drivers import (
    JAVA_VERSIONS,
    ProgramDriver,
    PulsarDriver,
    PulsarMessage,
    PythonDriver,
    go_driver,
    java_driver,
)

pytestmark = pytest.mark.slow

EVENT_MS = 1_700_000_000_123
MESSAGES = [
    PulsarMessage(None, b"bare"),
    PulsarMessage(b"k", b"keyed", 0, (("a", "1"), ("ü", "ö"))),
    PulsarMessage(None, b"timed", EVENT_MS),
    PulsarMessage(b"gone", None),
    PulsarMessage(b"large", b"x" * 100_000),
]
NAMES = (*(f"java-{version}" for version in JAVA_VERSIONS), "go", "python")
# Clients that have an empty value where others have null.
WRITE_NO_NULL = frozenset({"go"})
READ_NO_NULL = frozenset({"go", "python"})


@pytest.fixture(scope="module")
def door() -> Iterator[KafscaleProcess]:
    with watched(KafscaleProcess()) as broker:
        yield broker


def _start(name: str, url: str) -> PulsarDriver:
    if name == "go":
        return go_driver(url)
    return PythonDriver(url) if name == "python" else java_driver(name.removeprefix("java-"), url)


@pytest.fixture(scope="module")
def clients(door: KafscaleProcess) -> Iterator[Mapping[str, PulsarDriver]]:
    """Those that can be had here; why others cannot is printed."""
    found: dict[str, PulsarDriver] = {}
    for name in NAMES:
        try:
            found[name] = _start(name, f"pulsar://127.0.0.1:{door.pulsar_port}")
        except Unavailable as reason:
            print(f"{name}: {reason}")
    yield found
    for client in found.values():
        client.close()


def client_of(clients: Mapping[str, PulsarDriver], name: str) -> PulsarDriver:
    if name not in clients:
        pytest.skip(f"the client {name} cannot be had here")
    return clients[name]


def as_read(writer: str, reader: str, *, alone: bool) -> list[PulsarMessage]:
    """What a client reads of what another has written; `alone`: each message is its own entry.

    The Go client takes an entry without a payload for a broken one, and leaves it out.
    """
    if reader == "go" and alone:
        return [one for one in MESSAGES if one.value]
    empty = writer in WRITE_NO_NULL or reader in READ_NO_NULL
    return [one._replace(value=b"") if one.value is None and empty else one for one in MESSAGES]


def offset(message_id: tuple[int, int, int]) -> int:
    _, entry, index = message_id
    return entry + max(index, 0)


@pytest.mark.parametrize("writer", NAMES)
def test_every_client_reads_what_a_client_wrote(
    door: KafscaleProcess, clients: Mapping[str, PulsarDriver], writer: str
) -> None:
    topic = unique(f"written-by-{writer}")
    ids = client_of(clients, writer).send(topic, MESSAGES)
    assert list(map(offset, ids)) == list(range(len(MESSAGES)))
    null = [one.value for one in MESSAGES].index(None)
    # Java's client batches by time: a message that was alone in its batch is an entry without one.
    is_alone = writer == "python" or ids[null][2] < 0
    for reader, client in clients.items():
        wanted = as_read(writer, reader, alone=is_alone)
        found = client.receive(topic, f"of-{reader}", len(wanted), "Exclusive")
        assert [one.message for one in found] == wanted, reader
        if reader == "go":  # it has index 0 where others have none
            assert {offset(one.message_id) for one in found} <= set(range(len(MESSAGES)))
        else:
            assert [one.message_id for one in found] == ids, reader
    read = read_by_kafka(door, topic, len(MESSAGES))
    assert [(one.key(), one.value()) for one in read] == [
        (one.key, one.value) for one in as_read(writer, "kafka", alone=False)
    ]
    assert read[1].headers() == [("a", b"1"), ("ü", "ö".encode())]
    assert read[2].timestamp()[1] == EVENT_MS


@pytest.mark.parametrize("reader", NAMES)
@pytest.mark.parametrize("mode", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_every_client_reads_what_a_kafka_client_wrote(
    door: KafscaleProcess, clients: Mapping[str, PulsarDriver], reader: str, mode: str
) -> None:
    client = client_of(clients, reader)
    topic = unique(f"for-{reader}-{mode}")
    producer = Producer({"bootstrap.servers": door.bootstrap, "linger.ms": 50})
    for one in MESSAGES:
        headers = [(name, value.encode()) for name, value in one.properties]
        producer.produce(topic, one.value, one.key, headers=headers, timestamp=EVENT_MS)
    assert producer.flush(20) == 0
    read = as_read("kafka", reader, alone=mode == "Key_Shared")
    wanted = [one._replace(event_ms=EVENT_MS) for one in read]
    found = [row.message for row in client.receive(topic, "s", len(wanted), mode)]
    if mode == "Key_Shared":  # keys keep their order, others need not
        found, wanted = sorted(found, key=str), sorted(wanted, key=str)
    assert found == wanted


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_java_writes_and_reads_objects_by_a_schema(
    clients: Mapping[str, PulsarDriver], version: str
) -> None:
    client = client_of(clients, f"java-{version}")
    assert isinstance(client, ProgramDriver)
    assert client.ask(f"ORDERS {unique('orders')} 3") == ["order-0", "order-1", "order-2"]


ADMINISTRATION = """\
clusters 1
health done
create tenant done
create tenant again ConflictException 409
tenants [acme, public]
create namespace done
namespaces [acme/billing]
create topic done
create partitions done
partitions 3
more partitions done
partitions 5
topics 6
partitioned [persistent://acme/billing/parts]
subscribe done
subscriptions [s]
stats 0
skip done
reset done
unsubscribe done
missing NotFoundException 404
delete namespace ConflictException 409
delete done
delete partitions done
delete namespace done
delete tenant done
"""


def test_the_official_admin_client_does_its_daily_work(tmp_path: Path) -> None:
    port = free_port()
    settings = tmp_path / "broker.yaml"
    settings.write_text(f"pulsar: {{httpPort: {port}, autoCreateNamespaces: false}}\n")
    client = f"org.apache.pulsar:pulsar-client-admin:{JAVA_VERSIONS[0]}"
    try:
        command = compiled(SOURCES / "PulsarAdminDriver.java", client)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with watched(KafscaleProcess(env={"KAFSCALE_CONFIG": str(settings)})) as broker:
        run = subprocess.run(
            [*command, f"http://127.0.0.1:{port}"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.stdout == ADMINISTRATION
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        wish = NewTopic("acme/billing/orders", 1)
        future = admin.create_topics([wish])[wish.topic]
        with pytest.raises(KafkaException, match="no namespace acme/billing"):
            future.result(20)
