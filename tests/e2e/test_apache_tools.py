"""Apache Kafka's own command line tools, unmodified."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.e2e.test_clients import eventually, topic_name
from tests.support.apache_kafka import VERSION
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.maven import Unavailable, classpath
from tests.support.process import BrokerProcess

CONFIGS = "kafka.admin.ConfigCommand"
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def jars() -> str:
    if shutil.which("java") is None:
        pytest.skip("there is no java")
    try:
        return ":".join(
            classpath(f"org.apache.kafka:{name}:{VERSION}")
            for name in ("kafka_2.13", "kafka-tools")
        )
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = topic_name("tools")
    client = Confluent(broker.bootstrap)
    client.create_topic(name, 1)
    eventually(client.list_topics, lambda topics: name in topics)
    client.produce(name, [Record(0, b"k", b"%d" % at) for at in range(10)])
    return name


def run(broker: BrokerProcess, jars: str, tool: str, *words: str) -> str:
    """What a tool prints; it must succeed."""
    command = ["java", "-cp", jars, tool, "--bootstrap-server", broker.bootstrap, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafka_configs_alters_and_describes(broker: BrokerProcess, jars: str, topic: str) -> None:
    where = ["--entity-type", "topics", "--entity-name", topic]
    wanted = "retention.ms=5000000,cleanup.policy=[delete,compact]"
    run(broker, jars, CONFIGS, *where, "--alter", "--add-config", wanted)
    shown = run(broker, jars, CONFIGS, *where, "--describe")
    assert "retention.ms=5000000" in shown
    assert "cleanup.policy=delete,compact" in shown
    run(broker, jars, CONFIGS, *where, "--alter", "--delete-config", "cleanup.policy")
    assert "cleanup.policy" not in run(broker, jars, CONFIGS, *where, "--describe")


def test_kafka_topics_adds_partitions(broker: BrokerProcess, jars: str, topic: str) -> None:
    tool = f"{TOOLS}.TopicCommand"
    run(broker, jars, tool, "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in run(broker, jars, tool, "--describe", "--topic", topic)


def test_kafka_delete_records_moves_the_start(
    broker: BrokerProcess, jars: str, topic: str, tmp_path: Path
) -> None:
    wish = tmp_path / "offsets.json"
    place = {"topic": topic, "partition": 0, "offset": 4}
    wish.write_text(json.dumps({"partitions": [place], "version": 1}))
    tool = f"{TOOLS}.DeleteRecordsCommand"
    said = run(broker, jars, tool, "--offset-json-file", str(wish))
    assert f"partition: {topic}-0\tlow_watermark: 4" in said
    assert Confluent(broker.bootstrap).earliest(topic, 0) == 4


def test_kafka_log_dirs_tells_sizes(broker: BrokerProcess, jars: str, topic: str) -> None:
    tool = f"{TOOLS}.LogDirsCommand"
    last = run(broker, jars, tool, "--describe", "--topic-list", topic).splitlines()[-1]
    (directory,) = json.loads(last)["brokers"][0]["logDirs"]
    assert directory["error"] is None
    (row,) = directory["partitions"]
    assert (row["partition"], row["offsetLag"], row["isFuture"]) == (f"{topic}-0", 0, False)
    assert row["size"] > 100


@pytest.mark.parametrize(
    ("tool", "words", "shown"),
    [
        (f"{TOOLS}.reassign.ReassignPartitionsCommand", ("--list",), "No partition reassignments"),
        (CONFIGS, ("--describe", "--entity-type", "users", "--entity-name", "bob"), ""),
        (CONFIGS, ("--describe", "--entity-type", "clients"), ""),
        (CONFIGS, ("--describe", "--entity-type", "groups"), ""),
        (f"{TOOLS}.ClientMetricsCommand", ("--list",), ""),
        (f"{TOOLS}.TransactionsCommand", ("list",), "TransactionalId"),
    ],
    ids=["reassignments", "user", "clients", "groups", "client metrics", "transactions"],
)
def test_tools_list_nothing_where_there_is_nothing(
    broker: BrokerProcess, jars: str, tool: str, words: tuple[str, ...], shown: str
) -> None:
    printed = run(broker, jars, tool, *words).strip()
    assert printed.startswith(shown)
    assert len(printed.splitlines()) <= 1


def test_kafka_reassign_partitions_verifies_what_is_so_already(
    broker: BrokerProcess, jars: str, topic: str, tmp_path: Path
) -> None:
    wish = tmp_path / "reassignment.json"
    (leader,) = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics().brokers
    place = {"topic": topic, "partition": 0, "replicas": [leader]}
    wish.write_text(json.dumps({"partitions": [place], "version": 1}))
    tool = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    said = run(broker, jars, tool, "--verify", "--reassignment-json-file", str(wish))
    assert f"Reassignment of partition {topic}-0 is completed" in said


def test_kafka_acls_says_that_there_is_no_authorizer(broker: BrokerProcess, jars: str) -> None:
    where = ["--bootstrap-server", broker.bootstrap]
    command = ["java", "-cp", jars, f"{TOOLS}.AclCommand", *where, "--list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 1
    assert "SecurityDisabledException" in done.stdout + done.stderr


def test_kafka_configs_sets_shows_and_removes_quotas(broker: BrokerProcess, jars: str) -> None:
    user = ["--entity-type", "users", "--entity-name", "quota-user"]
    client = ["--entity-type", "clients", "--entity-default"]
    address = ["--entity-type", "ips", "--entity-name", "192.0.2.7"]
    wanted = "producer_byte_rate=1048576,request_percentage=12.5,controller_mutation_rate=3"
    run(broker, jars, CONFIGS, *user, *client, "--alter", "--add-config", wanted)
    rate = "connection_creation_rate=5"
    run(broker, jars, CONFIGS, *address, "--alter", "--add-config", rate)
    shown = run(broker, jars, CONFIGS, *user, "--entity-type", "clients", "--describe")
    assert "user-principal 'quota-user', default client-id" in shown.replace(
        "the default", "default"
    )
    assert "producer_byte_rate=1048576" in shown
    assert "request_percentage=12.5" in shown
    assert "controller_mutation_rate=3" in shown
    shown = run(broker, jars, CONFIGS, "--entity-type", "ips", "--describe")
    assert "'192.0.2.7'" in shown
    assert "connection_creation_rate=5" in shown
    gone = "producer_byte_rate,request_percentage,controller_mutation_rate"
    run(broker, jars, CONFIGS, *user, *client, "--alter", "--delete-config", gone)
    run(broker, jars, CONFIGS, *address, "--alter", "--delete-config", "connection_creation_rate")
    assert "quota-user" not in run(
        broker, jars, CONFIGS, *user, "--entity-type", "clients", "--describe"
    )


def test_kafka_transactions_shows_an_open_one_and_finds_none_that_hangs(
    broker: BrokerProcess, jars: str, topic: str
) -> None:
    tool, name = f"{TOOLS}.TransactionsCommand", f"id-{topic}"
    (node,) = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics().brokers
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": name}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.flush(60)
    assert f"{topic}-0" in run(broker, jars, tool, "describe", "--transactional-id", name), (
        "the partition is not shown"
    )
    shown = run(broker, jars, tool, "describe-producers", "--topic", topic, "--partition", "0")
    assert len(shown.strip().splitlines()) == 2
    hanging = run(broker, jars, tool, "find-hanging", "--broker-id", str(node))
    assert len(hanging.strip().splitlines()) <= 1
    producer.commit_transaction(60)
