"""Unmodified clients with their default settings: what one writes, every other reads."""

import itertools
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_STORED, Consumer, TopicPartition

from tests.e2e.conftest import AGAINST
from tests.support import wire
from tests.support.clients import CLIENTS
from tests.support.clients.base import CODECS, Client, ClientError, Record, Stored
from tests.support.process import BrokerProcess

T = TypeVar("T")

PARTITIONS = 3
ADMINS = [name for name, client in CLIENTS.items() if "admin" not in client.lacks]
COMMITTERS = [name for name, client in CLIENTS.items() if "commits" not in client.lacks]
_names = itertools.count()

# Everything a record can be, once.
SHAPES = (
    Record(0, b"key", b"value"),
    Record(0, b"key", b"value", (("name", b"text"), ("name", b"again"), ("empty", b""))),
    Record(0, b"key", b"value", (("null", None),)),
    Record(0, None, b"no key"),
    Record(0, b"no value", None),
    Record(0, b"empty value", b""),
    Record(0, b"", b""),
    Record(0, None, None),
    Record(0, b"\x00\xff\x1e\x1f\n", bytes(range(256)), (("bytes", b"\x00\xff,="),)),
    Record(0, "schlüssel".encode(), b"x" * 100_000),
    Record(0, b"long ago", b"v", timestamp_ms=1_000_000_000_123),
    Record(0, b"key", b"now"),
)


def writable(client: Client, record: Record) -> bool:
    """Whether this client can express the record at all."""
    headers = [value for _, value in record.headers]
    needs = {
        "timestamps": record.timestamp_ms is not None,
        "null headers": None in headers,
        "records without key and value": record.key is None and record.value is None,
        "binary": any(b"\xff" in raw for raw in [*headers, record.key] if raw),
    }
    return not any(needs[lack] for lack in client.lacks & needs.keys())


def readable(client: Client, record: Record | Stored) -> bool:
    return not ("binary" in client.lacks and any(b"\xff" in (v or b"") for _, v in record.headers))


def topic_name(purpose: str) -> str:
    return f"{purpose}-{next(_names)}"


def eventually(ask: Callable[[], T], wanted: Callable[[T], bool], within_s: float = 60.0) -> T:
    """Ask until the answer is as wanted: Kafka's brokers learn of topics a little later."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            answer = ask()
            if wanted(answer) or time.monotonic() > deadline:
                return answer
        except ClientError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def make_topic(client: Client, admin: Client, purpose: str, partitions: int) -> str:
    topic = topic_name(purpose)
    (admin if "admin" in client.lacks else client).create_topic(topic, partitions)
    assert eventually(admin.list_topics, lambda topics: topic in topics)[topic] == partitions
    for partition in range(partitions):
        # A Kafka broker names a partition before it leads it, and an idempotent producer that
        # hits this gap with several requests in flight never recovers.
        eventually(partial(admin.latest, topic, partition), lambda end: end == 0)
    return topic


def expected(records: list[Record], offsets: list[int]) -> list[Stored]:
    """What must be read; a time of -1 stands for the client's own clock."""
    stored = [
        Stored(r.partition, offset, r.key, r.value, r.headers, r.timestamp_ms or -1)
        for r, offset in zip(records, offsets, strict=True)
    ]
    return sorted(stored, key=lambda s: (s.partition, s.offset))


def assert_same(found: list[Stored], wanted: list[Stored], since_ms: int) -> None:
    found = sorted(found, key=lambda s: (s.partition, s.offset))
    assert [(s.partition, s.offset) for s in found] == [(s.partition, s.offset) for s in wanted]
    now_ms = int(time.time() * 1000)
    for seen, want in zip(found, wanted, strict=True):
        if want.timestamp_ms == -1:
            assert since_ms <= seen.timestamp_ms <= now_ms
            want = replace(want, timestamp_ms=seen.timestamp_ms)
        assert seen == want


def codecs_stored(port: int, topic: str) -> set[int]:
    """The codec numbers of the batches in partition 0, as the broker hands them out."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(wire.fetch(topic, 0, 0, 1))
        error, _, records = wire.fetched(wire.read_answer(sock)[1])
    assert error == 0
    return {batch.codec for batch in wire.batches(records)}


@pytest.fixture(scope="session")
def admin(client_named: Callable[[str], Client]) -> Client:
    return client_named("confluent")


@pytest.fixture(scope="session")
def written_by(
    client_named: Callable[[str], Client], admin: Client
) -> Callable[[str], tuple[str, list[Stored], int]]:
    """Every shape in every codec on three partitions, written once per client."""
    done: dict[str, tuple[str, list[Stored], int]] = {}

    def write(name: str) -> tuple[str, list[Stored], int]:
        if name not in done:
            writer = client_named(name)
            topic = make_topic(writer, admin, f"written-by-{name}", PARTITIONS)
            since_ms = int(time.time() * 1000)
            records: list[Record] = []
            offsets: list[int] = []
            for codec in CODECS:
                these = [
                    replace(shape, partition=partition)
                    for partition in range(PARTITIONS)
                    for shape in SHAPES
                    if writable(writer, shape)
                ]
                records += these
                offsets += writer.produce(topic, these, codec)
            done[name] = topic, expected(records, offsets), since_ms
        return done[name]

    return write


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_any_client_reads_what_any_other_wrote(
    writer: str,
    reader: str,
    written_by: Callable[[str], tuple[str, list[Stored], int]],
    client_named: Callable[[str], Client],
) -> None:
    consumer = client_named(reader)
    topic, wanted, since_ms = written_by(writer)
    per_partition = len(wanted) // PARTITIONS
    assert [s.offset for s in wanted] == list(range(per_partition)) * PARTITIONS
    found = consumer.consume(topic, list(range(PARTITIONS)), len(wanted))
    hidden = {(s.partition, s.offset) for s in wanted if not readable(consumer, s)}
    assert_same(
        [s for s in found if (s.partition, s.offset) not in hidden],
        [s for s in wanted if (s.partition, s.offset) not in hidden],
        since_ms,
    )


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("codec", CODECS)
def test_a_few_thousand_records_come_back_in_order_and_stay_compressed(
    broker: BrokerProcess, client: Client, admin: Client, codec: str, partitions: int
) -> None:
    topic = make_topic(client, admin, f"thousands-{codec}", partitions)
    since_ms = int(time.time() * 1000)
    # One partition after the other, because kcat takes one per run.
    records = [
        Record(p, b"%d" % n, b"value %d " % n + b"." * (n % 200))
        for p in range(partitions)
        for n in range(3000 // partitions)
    ]
    offsets = client.produce(topic, records, codec)
    assert offsets == list(range(3000 // partitions)) * partitions
    found = client.consume(topic, list(range(partitions)), len(records))
    assert_same(found, expected(records, offsets), since_ms)
    # Clients may leave small batches alone, so one compressed batch is enough to know.
    stored = codecs_stored(broker.port, topic)
    assert CODECS.index(codec) in stored
    assert stored <= {CODECS.index(codec), CODECS.index("none")}


def test_writing_to_an_unknown_topic_creates_it(client: Client) -> None:
    topic = topic_name(f"auto-{client.name}")
    since_ms = int(time.time() * 1000)
    record = Record(0, b"key", b"value")
    assert client.produce(topic, [record]) == [0]
    assert topic in client.list_topics()
    assert_same(client.consume(topic, [0], 1), expected([record], [0]), since_ms)


@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_a_topic_deleted_and_created_again_is_empty(client: Client) -> None:
    topic = topic_name(f"again-{client.name}")
    client.create_topic(topic, 3)
    assert eventually(client.list_topics, lambda topics: topic in topics)[topic] == 3
    old = [Record(p, b"old", b"old") for p in range(3)]
    assert client.produce(topic, old * 2) == [0, 0, 0, 1, 1, 1]
    client.delete_topic(topic)
    assert topic not in eventually(client.list_topics, lambda topics: topic not in topics)
    client.create_topic(topic, 2)
    assert eventually(client.list_topics, lambda topics: topic in topics)[topic] == 2
    assert eventually(lambda: client.latest(topic, 0), lambda end: end == 0) == 0
    assert client.produce(topic, [Record(1, b"new", b"new")]) == [0]
    assert [s.value for s in client.consume(topic, [0, 1], 1)] == [b"new"]
    assert (client.earliest(topic, 1), client.latest(topic, 1)) == (0, 1)


@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_creating_a_topic_twice_or_deleting_a_missing_one_is_refused(client: Client) -> None:
    topic = topic_name(f"twice-{client.name}")
    client.create_topic(topic, 1)
    with pytest.raises(ClientError, match=r"(?i)already.?exists|topic.?exists"):
        client.create_topic(topic, 1)
    with pytest.raises(ClientError, match=r"(?i)unknown.?topic"):
        client.delete_topic(topic_name("never-made"))


@pytest.mark.parametrize("together", [True, False], ids=["one-batch", "a-batch-each"])
def test_offsets_are_found_by_position_and_by_time(
    client: Client, admin: Client, together: bool
) -> None:
    topic = make_topic(admin, admin, f"offsets-{client.name}", 2)
    start_ms = int(time.time() * 1000) - 3_600_000
    # Not in order: a search must take the first record that is late enough.
    records = [Record(1, None, b"v", (), start_ms + ms) for ms in (1000, 5000, 2000, 3000)]
    for group in [records] if together else [[record] for record in records]:
        admin.produce(topic, group)
    assert (client.earliest(topic, 0), client.latest(topic, 0)) == (0, 0)
    assert (client.earliest(topic, 1), client.latest(topic, 1)) == (0, 4)
    asked = (0, 1000, 1001, 2000, 5000, 5001)
    assert [client.offset_at(topic, 1, start_ms + ms) for ms in asked] == [0, 0, 1, 1, 1, None]
    assert client.offset_at(topic, 0, start_ms) is None
    if "max timestamp" not in client.lacks:
        assert client.offset_of_max_timestamp(topic, 1) == 1


def test_every_client_sees_the_same_cluster(client: Client, admin: Client) -> None:
    seen, known = client.cluster(), admin.cluster()
    assert sorted(seen.brokers) == sorted(known.brokers)
    assert len(seen.brokers) == {"proxy": 2, "proxy-three": 4}.get(AGAINST, 1)  # proxy and nodes
    assert seen.controller in seen.brokers
    if "cluster id" not in client.lacks:
        assert seen.cluster_id == known.cluster_id != ""


@pytest.mark.parametrize("reader", COMMITTERS)
@pytest.mark.parametrize("writer", COMMITTERS)
def test_any_client_knows_what_any_other_committed(
    writer: str, reader: str, client_named: Callable[[str], Client], admin: Client
) -> None:
    topic = make_topic(admin, admin, "committed", 3)
    group = f"{topic}-{writer}"
    assert client_named(reader).committed(group, topic, 0) is None
    client_named(writer).commit(group, topic, {0: 7, 2: 1 << 40})
    client_named(writer).commit(group, topic, {0: 5})
    assert [client_named(reader).committed(group, topic, p) for p in range(3)] == [5, None, 1 << 40]
    assert client_named(reader).committed(f"{group}-other", topic, 0) is None


def test_a_consumer_at_default_settings_commits_when_it_closes_and_the_next_goes_on_there(
    broker: BrokerProcess, admin: Client
) -> None:
    topic = make_topic(admin, admin, "resumed", 1)
    admin.produce(topic, [Record(0, None, b"%d" % n) for n in range(10)])
    seen: list[bytes | None] = []
    for start in (OFFSET_BEGINNING, OFFSET_STORED):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
        consumer.assign([TopicPartition(topic, 0, start)])
        seen += [message.value() for message in consumer.consume(5, timeout=30)]
        consumer.close()
    assert seen == [b"%d" % n for n in range(10)]
    assert admin.committed(topic, topic, 0) == 10


@pytest.mark.parametrize("name", [name for name in CLIENTS if name != "kcat"])
def test_every_client_can_begin_a_transaction(
    client_named: Callable[[str], Client], name: str
) -> None:
    client_named(name).begin_transaction(topic_name("transaction"))


@pytest.mark.parametrize("name", ["confluent", "kafka-python"])
@pytest.mark.parametrize("way", ["stop", "kill"])
def test_cluster_id_broker_id_and_records_outlive_a_restart(
    own_broker: BrokerProcess, name: str, way: str
) -> None:
    client = CLIENTS[name](own_broker.bootstrap)
    client.create_topic("kept", 3)
    eventually(client.list_topics, lambda topics: "kept" in topics)
    since_ms = int(time.time() * 1000)
    records = [Record(p, b"%d" % p, b"value") for p in range(3)]
    offsets = client.produce("kept", records)
    before = client.cluster()
    if way == "stop":
        assert own_broker.stop() in (0, 143)  # a JVM ended by SIGTERM says 143
    else:
        own_broker.kill()
    own_broker.start()
    client = CLIENTS[name](own_broker.bootstrap)
    after = eventually(client.cluster, lambda cluster: bool(cluster.brokers))
    if AGAINST == "proxy-three":  # Apache Kafka of several nodes names any of them as controller
        after = replace(after, controller=before.controller)
    assert after == before
    assert client.list_topics()["kept"] == 3
    found = client.consume("kept", [0, 1, 2], 3)
    assert_same(found, expected(records, offsets), since_ms)
    assert client.produce("kept", records) == [1, 1, 1]
