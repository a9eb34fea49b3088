"""Real clients and Apache Kafka's own tool on a broker with access control lists.

The broker lets everyone do what no list is about, so that clients without a login can be denied
things: they are User:ANONYMOUS.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.e2e.conftest import watched
from tests.e2e.test_apache_tools import TOOLS, jars  # noqa: F401 - a fixture
from tests.e2e.test_clients import eventually
from tests.support.broker import KafscaleProcess
from tests.support.process import BrokerProcess

ACLS = f"{TOOLS}.AclCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    settings = ("authorization.enabled=true", "authorization.allowEveryoneIfNoAclFound=true")
    with watched(KafscaleProcess(settings=settings)) as guarded:
        admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
        topics = [NewTopic(name, 1) for name in ("open", "secret", "team.orders")]
        for answer in admin.create_topics(topics).values():
            answer.result()
        yield guarded


def run_acls(broker: BrokerProcess, jars: str, *words: str) -> str:  # noqa: F811
    command = ["java", "-cp", jars, ACLS, "--bootstrap-server", broker.bootstrap, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafka_acls_adds_lists_and_removes(broker: BrokerProcess, jars: str) -> None:  # noqa: F811
    added = run_acls(
        broker, jars, "--add", "--allow-principal", "User:alice", "--deny-principal", "User:bob",
        "--deny-host", "10.0.0.9", "--operation", "Read", "--operation", "Write",
        "--topic", "tool.", "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    assert "patternType=PREFIXED" in added
    listed = run_acls(broker, jars, "--list", "--principal", "User:bob")
    assert "principal=User:bob, host=10.0.0.9, operation=READ, permissionType=DENY" in listed
    assert "alice" not in listed
    matching = run_acls(
        broker, jars, "--list", "--topic", "tool.x", "--resource-pattern-type", "match"
    )
    assert "name=tool., patternType=PREFIXED" in matching
    assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in matching
    run_acls(
        broker, jars, "--remove", "--force", "--topic", "tool.",
        "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    assert "tool." not in run_acls(broker, jars, "--list")


def kafscale(broker: BrokerProcess, *words: str) -> str:
    command = [sys.executable, "-m", "kafscale.cli.main", *words, "-b", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def code_of(producer: Producer, topic: str) -> int:
    codes: list[int] = []
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0)
    )
    producer.flush(30)
    return codes[0]


def test_clients_are_told_what_they_may_not_do_and_roles_change_it(broker: BrokerProcess) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap}
    admin, producer = AdminClient(settings), Producer(settings)
    kafscale(broker, "roles", "grant", "producer", "User:alice", "--topic", "secret")
    kafscale(
        broker, "roles", "grant", "consumer", "User:alice",
        "--topic-prefix", "team.", "--group", "team",
    )  # fmt: skip
    rows = [json.loads(line) for line in kafscale(broker, "roles", "list", "--json").splitlines()]
    assert [(row["role"], row["topics"], row["groups"]) for row in rows] == [
        ("consumer", "team.*", "team"),
        ("producer", "secret", ""),
    ]
    assert sorted(admin.list_topics(timeout=20).topics) == ["open"], "what is denied is hidden"
    assert code_of(producer, "open") == 0
    assert code_of(producer, "secret") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    denied = Consumer({**settings, "group.id": "team", "auto.offset.reset": "earliest"})
    denied.subscribe(["open"])
    message = eventually(lambda: denied.poll(1), lambda found: found is not None)
    assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    denied.close()
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions("secret", 2)])["secret"].result()
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    kafscale(broker, "roles", "revoke", "producer", "User:alice", "--topic", "secret")
    producer = Producer(settings)  # the other one remembers that it was refused
    assert code_of(producer, "secret") == 0
    kafscale(broker, "roles", "grant", "producer", "User:ANONYMOUS", "--topic-prefix", "team.")
    assert code_of(Producer(settings), "team.orders") == 0
