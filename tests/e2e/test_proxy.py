"""`kafscale proxy` before a real Apache Kafka: virtual partitions that no client can tell apart.

The questions of all clients are asked with KAFSCALE_TEST_AGAINST=proxy (test_clients.py). Here is
what only a proxy has: a log below it that others see, too, and a death of its own.
"""

import itertools
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kafscale.virtual.arithmetic import Remapper
from kafscale.wire.kafka.errors import ErrorCode
from tests.bad_input.payloads import forged, good, record
from tests.e2e.conftest import watched
from tests.support import wire
from tests.support.apache_kafka import ApacheKafka
from tests.support.certificates import Authority
from tests.support.clients.base import Record
from tests.support.clients.java import Java4
from tests.support.maven import ROOT, Unavailable
from tests.support.ports import free_port
from tests.support.proxy import ProxyProcess
from tests.support.proxy_load import Acked, create, read, write

pytestmark = pytest.mark.slow
MAPPING = {
    "topics": {
        "plain.*": {"virtual_partitions": 1, "physical_partitions": 1},
        "[a-z]+-100": {"virtual_partitions": 100, "physical_partitions": 10},
        "mapped.*": {"virtual_partitions": 6, "physical_partitions": 2},
    }
}
SASL = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL://127.0.0.1:{sasl}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL
listener.name.sasl.ssl.keystore.type=PEM
listener.name.sasl.ssl.keystore.location={keys}
listener.name.sasl.ssl.truststore.type=PEM
listener.name.sasl.ssl.truststore.location={authority}
listener.name.sasl.ssl.client.auth=required
listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_proxy="secret";
listener.name.sasl.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
group.initial.rebalance.delay.ms=0
"""
_names = itertools.count()


class SecuredKafka(ApacheKafka):
    """Apache Kafka with a second listener that wants TLS and a login."""

    def __init__(self) -> None:
        super().__init__()
        self.sasl_port = free_port()
        self.authority = Authority(self.folder, "authority")
        self.keys = self.authority.issue("localhost")

    def prepare(self) -> None:
        self.more_settings = SASL.format(
            port=self.port,
            controller=self._controller_port,
            sasl=self.sasl_port,
            keys=self.keys.both,
            authority=self.authority.file,
        )
        super().prepare()


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    try:
        made = SecuredKafka()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with watched(made) as running:
        assert isinstance(running, SecuredKafka)
        yield running


@pytest.fixture(scope="module")
def proxy(kafka: SecuredKafka) -> Iterator[ProxyProcess]:
    with watched(ProxyProcess(kafka.bootstrap, MAPPING)) as running:
        assert isinstance(running, ProxyProcess)
        yield running


def new_name(kind: str = "mapped") -> str:
    return f"{kind}-{next(_names)}"


def verify(proxy: ProxyProcess, *topics: str) -> tuple[int, str]:
    run = subprocess.run(
        [
            *(sys.executable, "-m", "kafscale.cli.main", "proxy", "verify", *topics),
            *("--upstream", proxy.upstream, "--config", str(proxy.config)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def test_the_table_of_examples_holds_partition_by_partition(
    kafka: SecuredKafka, proxy: ProxyProcess
) -> None:
    topic = create(proxy.bootstrap, "orders-100", 100)
    examples = {0: 0, 1: 1, 5: 5, 9: 9, 10: 0, 11: 1, 50: 0, 99: 9}
    rows = [(v, b"%d/%d" % (v, at)) for at in range(3) for v in examples]
    assert write(proxy.bootstrap, topic, rows) == [at for at in range(3) for _ in examples]
    below = read(kafka.bootstrap, topic, list(range(10)), len(rows))
    for virtual, physical in examples.items():
        values = [value for _, value in below[physical] if value.startswith(b"%d/" % virtual)]
        assert values == [b"%d/%d" % (virtual, at) for at in range(3)]
    above = read(proxy.bootstrap, topic, list(examples), len(rows))
    for virtual, found in above.items():
        assert found == [(at, b"%d/%d" % (virtual, at)) for at in range(3)]
    # The seed's formula is the address that tools show; it is not where bytes lie.
    address = Remapper(100, 10, 10**12).virtual_to_physical_offset
    assert address(50, 500)[:2] == (0, 5_000_000_000_500)
    assert address(99, 0)[:2] == (9, 9_000_000_000_000)


def test_topics_without_a_mapping_pass_as_they_are(
    kafka: SecuredKafka, proxy: ProxyProcess
) -> None:
    topic = create(proxy.bootstrap, new_name("plain"), 2)
    rows = [(at % 2, b"%d" % at) for at in range(100)]
    write(proxy.bootstrap, topic, rows, **{"compression.type": "zstd"})
    assert read(proxy.bootstrap, topic, [0, 1], 100) == read(kafka.bootstrap, topic, [0, 1], 100)


def test_a_java_client_with_default_settings(proxy: ProxyProcess) -> None:
    try:
        client = Java4(proxy.bootstrap)
    except Unavailable as reason:
        pytest.skip(str(reason))
    topic = create(proxy.bootstrap, new_name(), 6)
    records = [Record(at % 6, b"k", b"%d" % at, (("h", b"1"),)) for at in range(60)]
    try:
        assert client.produce(topic, records) == [at // 6 for at in range(60)]
        found = client.consume(topic, list(range(6)), 60)
        assert {(one.partition, one.offset, one.value, one.headers) for one in found} == {
            (at % 6, at // 6, b"%d" % at, (("h", b"1"),)) for at in range(60)
        }
        client.commit("java", topic, {5: 7})
        assert client.committed("java", topic, 5) == 7
    finally:
        client.close()


def test_plain_producers_and_consumers_of_the_topic_below(
    kafka: SecuredKafka, proxy: ProxyProcess
) -> None:
    topic = create(proxy.bootstrap, new_name(), 6)
    write(proxy.bootstrap, topic, [(0, b"a"), (2, b"b")])
    write(kafka.bootstrap, topic, [(0, b"plain"), (0, b"too")])
    assert write(proxy.bootstrap, topic, [(0, b"c"), (2, b"d")]) == [3, 1]
    found = read(proxy.bootstrap, topic, [0, 2], 6)
    assert found[0] == [(0, b"a"), (1, b"plain"), (2, b"too"), (3, b"c")]
    assert found[2] == [(0, b"b"), (1, b"d")]
    below = read(kafka.bootstrap, topic, [0], 6)[0]
    assert {value for _, value in below} == {b"a", b"b", b"plain", b"too", b"c", b"d"}


def test_offsets_by_time_and_records_that_are_deleted(proxy: ProxyProcess) -> None:
    topic = create(proxy.bootstrap, new_name(), 6)
    producer = Producer({"bootstrap.servers": proxy.bootstrap})
    for at in range(20):
        producer.produce(topic, b"%d" % at, partition=4, timestamp=1_000_000 + at * 1000)
        producer.produce(topic, b"other", partition=2, timestamp=5_000_000 + at)
        producer.flush(60)
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
    place = TopicPartition(topic, 4)

    def offset(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({place: spec})[place].result().offset)

    assert offset(OffsetSpec.for_timestamp(1_000_000)) == 0
    assert offset(OffsetSpec.for_timestamp(1_007_001)) == 8
    assert offset(OffsetSpec.for_timestamp(2_000_000)) == -1
    assert offset(OffsetSpec.max_timestamp()) == 19
    deleted = admin.delete_records([TopicPartition(topic, 4, 12)])
    assert [one.result().low_watermark for one in deleted.values()] == [12]
    assert offset(OffsetSpec.earliest()) == 12
    assert offset(OffsetSpec.latest()) == 20
    assert read(proxy.bootstrap, topic, [4], 8)[4][0] == (12, b"12")


def test_what_cannot_be_is_refused(proxy: ProxyProcess) -> None:
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
    name = new_name()
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        create(proxy.bootstrap, name, 6, **{"cleanup.policy": "compact"})
    topic = create(proxy.bootstrap, new_name(), 6)
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        next(iter(admin.incremental_alter_configs([resource]).values())).result()
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"never", partition=1)
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
    assert read(proxy.bootstrap, topic, [1], 0) == {1: []}


def test_more_partitions_share_the_same_physical_ones(
    kafka: SecuredKafka, proxy: ProxyProcess
) -> None:
    topic = create(proxy.bootstrap, new_name(), 5)
    write(proxy.bootstrap, topic, [(at, b"before") for at in range(5)])
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
    admin.create_partitions([NewPartitions(topic, 9)])[topic].result()
    below = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert len(below.list_topics(topic, timeout=30).topics[topic].partitions) == 2
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 9
    assert write(proxy.bootstrap, topic, [(8, b"new"), (4, b"new")]) == [0, 1]


def test_retention_by_bytes_is_scaled(kafka: SecuredKafka, proxy: ProxyProcess) -> None:
    topic = create(proxy.bootstrap, new_name(), 6, **{"retention.bytes": "1000000"})

    admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
    below = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def retention(asked: AdminClient) -> str:
        found = asked.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        return str(next(iter(found.values())).result()["retention.bytes"].value)

    assert (retention(admin), retention(below)) == ("1000000", "3000000")
    entry = ConfigEntry("retention.bytes", "5", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([resource]).values())).result()
    assert (retention(admin), retention(below)) == ("5", "15")


def test_a_group_goes_on_where_it_was_at_every_virtual_partition(proxy: ProxyProcess) -> None:
    topic = create(proxy.bootstrap, new_name(), 6)
    write(proxy.bootstrap, topic, [(at % 6, b"%d" % at) for at in range(60)])
    settings = {
        "bootstrap.servers": proxy.bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    seen: set[tuple[int, int]] = set()
    for share in (25, 35):
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        deadline = time.monotonic() + 120
        before = len(seen)
        while len(seen) - before < share and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                place = message.partition(), message.offset()
                assert place not in seen
                seen.add(place)
                consumer.commit(message, asynchronous=False)
        consumer.close()
    assert seen == {(partition, at) for partition in range(6) for at in range(10)}


def test_a_proxy_that_is_killed_goes_on_where_it_was(kafka: SecuredKafka) -> None:
    topic = new_name()
    with watched(ProxyProcess(kafka.bootstrap, MAPPING)) as own:
        assert isinstance(own, ProxyProcess)
        create(own.bootstrap, topic, 6)
        acked = Acked(own.bootstrap, topic)
        with acked:
            for _ in range(2):
                acked.wait_for_more(200)
                own.kill()
                own.start()
            acked.wait_for_more(200)
        acked.check(own.bootstrap)
        code, said = verify(own, topic)
        assert code == 0, said
        assert said.count("sound") == 2


def test_the_upstreams_retention_moves_the_first_offset(kafka: SecuredKafka) -> None:
    topic = new_name()
    with watched(ProxyProcess(kafka.bootstrap, MAPPING)) as own:
        assert isinstance(own, ProxyProcess)
        create(own.bootstrap, topic, 6)
        write(own.bootstrap, topic, [(at % 6, b"%d" % at) for at in range(120)])
        below = AdminClient({"bootstrap.servers": kafka.bootstrap})
        gone = TopicPartition(topic, 1, 60)  # everything of one physical partition
        next(iter(below.delete_records([gone]).values())).result()
        admin = AdminClient({"bootstrap.servers": own.bootstrap})
        place = TopicPartition(topic, 3)
        deadline = time.monotonic() + 60
        while admin.list_offsets({place: OffsetSpec.earliest()})[place].result().offset != 20:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        own.restart()  # nothing in the log tells the next offset any more
        assert write(own.bootstrap, topic, [(3, b"next"), (2, b"kept")]) == [20, 20]
        assert read(own.bootstrap, topic, [3], 1)[3] == [(20, b"next")]
        assert len(read(own.bootstrap, topic, [2], 21)[2]) == 21


def test_several_proxies_share_the_work_and_take_over(kafka: SecuredKafka) -> None:
    topic = "shared-100"
    first = ProxyProcess(kafka.bootstrap, MAPPING, number=11, ledger="both")
    second = ProxyProcess(kafka.bootstrap, MAPPING, number=12, ledger="both")
    with watched(first), watched(second):
        create(first.bootstrap, topic, 100)
        both = f"{first.bootstrap},{second.bootstrap}"
        leaders = {
            row.leader
            for row in AdminClient({"bootstrap.servers": both})
            .list_topics(topic, timeout=30)
            .topics[topic]
            .partitions.values()
        }
        assert leaders >= {1_000_011, 1_000_012}
        acked = Acked(both, topic, 100)
        with acked:
            acked.wait_for_more(300)
            first.kill()
            acked.wait_for_more(300)
            first.start()
            acked.wait_for_more(300)
            second.stop()
            acked.wait_for_more(300)
        acked.check(first.bootstrap)
        second.start()


def test_logins_and_encryption_on_both_sides(kafka: SecuredKafka, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice=wonderland\n")
    add_user = subprocess.run(
        [
            *kafka._java(),
            *("-cp", kafka._jars, "kafka.admin.ConfigCommand"),
            *("--bootstrap-server", kafka.bootstrap, "--alter", "--entity-type", "users"),
            *("--entity-name", "proxy", "--add-config", "SCRAM-SHA-256=[password=secret]"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert add_user.returncode == 0, add_user.stderr
    keys = kafka.authority.issue("proxy")
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        own = ProxyProcess(
            f"127.0.0.1:{kafka.sasl_port}",
            MAPPING,
            listen={
                "tls": {"cert_path": str(keys.certificate), "key_path": str(keys.key)},
                "sasl": {
                    "enabled_mechanisms": ["PLAIN", "SCRAM-SHA-256"],
                    "users_file": str(users),
                },
            },
            kafka={
                "tls": {
                    "ca_cert_path": str(kafka.authority.file),
                    "cert_path": str(keys.certificate),
                    "key_path": str(keys.key),
                },
                "sasl": {"mechanism": mechanism, "username": "proxy", "password": "secret"},
            },
        )
        own.answers = lambda own=own: "proxy_started" in own.tail()  # type: ignore[method-assign,misc]
        with watched(own):
            said = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": mechanism,
                "ssl.ca.location": str(kafka.authority.file),
                "sasl.username": "alice",
            }
            admin = AdminClient(
                {"bootstrap.servers": own.bootstrap, **said, "sasl.password": "wonderland"}
            )
            topic = new_name()
            admin.create_topics([NewTopic(topic, 6)])[topic].result()
            good = {**said, "sasl.password": "wonderland"}
            assert write(own.bootstrap, topic, [(5, b"x")], **good) == [0]
            assert read(own.bootstrap, topic, [5], 1, **good)[5] == [(0, b"x")]
            wrong = AdminClient({"bootstrap.servers": own.bootstrap, **said, "sasl.password": "no"})
            with pytest.raises(KafkaException):
                wrong.list_topics(timeout=5)


def test_a_wrong_configuration_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "proxy.yaml"
    for tree, word in (
        ({"mapping": {"virtual_partitions": 7, "physical_partitions": 2}}, "divide"),
        ({"mapping": {"topics": {"(": {"virtual_partitions": 2}}}}, "pattern"),
        ({"listen": {"adress": "x"}}, "adress"),
        ({"kafka": {"sasl": {"password": "${NO_SUCH_VARIABLE}"}}}, "NO_SUCH_VARIABLE"),
    ):
        config.write_text(json.dumps(tree))
        run = subprocess.run(
            [
                *(sys.executable, "-m", "kafscale.cli.main", "proxy"),
                *("--upstream", "127.0.0.1:1", "--config", str(config)),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 2
        assert run.stderr.count("\n") == 1
        assert word in run.stderr


def test_bad_bytes_cost_their_sender_alone(proxy: ProxyProcess) -> None:
    topic = create(proxy.bootstrap, new_name(), 6)
    assert wire.answers(proxy.port)
    for bad in (b"\0\0\0\x05\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=30) as client:
            client.sendall(bad)
            try:
                assert client.recv(100) == b""
            except ConnectionResetError:
                pass
    assert write(proxy.bootstrap, topic, [(0, b"x")]) == [0]


def test_bad_batches_are_refused_and_hurt_no_other(proxy: ProxyProcess) -> None:
    topic = create(proxy.bootstrap, new_name(), 6)
    broken = bytearray(good())
    broken[-1] ^= 1
    two = good() + good()
    cases = [
        (0, good(), ErrorCode.NONE),
        (0, bytes(broken), ErrorCode.CORRUPT_MESSAGE),
        (0, two, ErrorCode.INVALID_RECORD),
        (0, good()[:40], ErrorCode.INVALID_RECORD),
        (0, forged(record(), producer_id=-(1 << 62)), ErrorCode.INVALID_RECORD),  # a forged tag
        (0, forged(record(), attributes=0x20), ErrorCode.INVALID_RECORD),
        (0, forged(record(), attributes=0x10), ErrorCode.INVALID_TXN_STATE),
        (0, forged(record(), count=9), ErrorCode.INVALID_RECORD),
        (0, forged(b"nonsense"), ErrorCode.INVALID_RECORD),
        (
            0,
            forged(b"nonsense", producer_id=5, producer_epoch=0, base_sequence=0),
            ErrorCode.INVALID_RECORD,
        ),
        (
            0,
            forged(b"nonsense", attributes=4, producer_id=6, producer_epoch=0, base_sequence=0),
            ErrorCode.INVALID_RECORD,
        ),
        (6, good(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, good(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (3, good(), ErrorCode.NONE),
        (0, good(), ErrorCode.NONE),
    ]
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        for number, (partition, batch, code) in enumerate(cases):
            client.sendall(wire.produce(topic, partition, batch, -1, number))
            answered, body = wire.read_answer(client)
            assert answered == number
            assert wire.produce_error(body)[0] == code, number
    assert [offset for offset, _ in read(proxy.bootstrap, topic, [0], 2)[0]] == [0, 1]


def test_the_commands_of_the_document_run(kafka: SecuredKafka, tmp_path: Path) -> None:
    text = (ROOT / "docs/operating/proxy.md").read_text("utf-8")
    (tmp_path / "proxy.yaml").write_text(re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)[0])
    start, check, *views = re.findall(r"^\$ kafscale (proxy .*)$", text, re.MULTILINE)
    port = free_port()

    def words(line: str) -> list[str]:
        line = line.replace("localhost:9092", kafka.bootstrap)
        line = line.replace("localhost:9192", f"127.0.0.1:{port}")
        return [sys.executable, "-m", "kafscale.cli.main", *line.split()]

    with subprocess.Popen(words(start), cwd=tmp_path, stderr=subprocess.DEVNULL) as running:
        try:
            deadline = time.monotonic() + 120
            while not wire.answers(port):
                assert running.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            create(f"127.0.0.1:{port}", "orders", 100)
            write(f"127.0.0.1:{port}", "orders", [(99, b"x")])
            said = subprocess.run(
                words(check), cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
            ).stdout
        finally:
            running.terminate()
            running.wait(60)
    assert "orders-9: 1 batches, 1 records in 1 virtual partitions" in said
    assert said.count("sound") == 10
    assert [line.split()[1] for line in views] == ["address"] * 2
    for line in views:
        shown = subprocess.run(
            words(line), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        ).stdout
        assert f"$ kafscale {line}\n{shown}" in text


def test_the_upstream_is_killed_and_comes_back(kafka: SecuredKafka, proxy: ProxyProcess) -> None:
    topic = create(proxy.bootstrap, new_name(), 6)
    acked = Acked(proxy.bootstrap, topic)
    with acked:
        acked.wait_for_more(200)
        kafka.kill()
        kafka.start()
        acked.wait_for_more(200)
    acked.check(proxy.bootstrap)
