"""Groups as administrators and static members see them, with unmodified clients and tools."""

import itertools
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from confluent_kafka.admin import AdminClient

from tests.e2e.test_apache_tools import TOOLS, jars, run
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent, ConfluentMember
from tests.support.exposition import parse, series

__all__ = ["jars"]  # a fixture

GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
PARTITIONS = 4
WITHIN_S = 120.0
_names = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[KafscaleProcess]:
    with KafscaleProcess() as process:
        yield process


@pytest.fixture(scope="module")
def client(broker: KafscaleProcess) -> Confluent:
    return Confluent(broker.bootstrap)


@pytest.fixture
def topic(client: Confluent) -> str:
    """Four partitions of ten records each; its name serves as a group's, too."""
    name = f"administered-{next(_names)}"
    client.create_topic(name, PARTITIONS)
    client.produce(name, [Record(at % PARTITIONS, None, b"%d" % at) for at in range(40)])
    return name


def rebalances(broker: KafscaleProcess) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics") as page:
        return int(parse(page.read())[series("kafscale_group_rebalances_total")])


def drive(members: list[ConfluentMember], wanted: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not wanted():
        assert time.monotonic() < deadline, f"{what}: {[m.partitions() for m in members]}"
        for member in members:
            member.poll()


def are_sharing(members: list[ConfluentMember]) -> bool:
    shares = [member.partitions() for member in members]
    return all(shares) and sorted(itertools.chain(*shares)) == list(range(PARTITIONS))


def test_a_static_member_that_is_back_within_its_session_causes_no_rebalance(
    broker: KafscaleProcess, topic: str
) -> None:
    def join(name: str) -> ConfluentMember:
        return ConfluentMember(
            broker.bootstrap, topic, topic, group_instance_id=name, session_timeout_ms=120_000
        )

    members = [join("a"), join("b")]
    drive(members, lambda: are_sharing(members), "sharing")
    before, shares = rebalances(broker), [member.partitions() for member in members]
    members[0].leave()  # a static member goes without a word
    drive(members[1:], lambda: members[1].partitions() == shares[1], "alone")
    members[0] = join("a")
    drive(members, lambda: are_sharing(members), "back")
    assert [member.partitions() for member in members] == shares
    assert rebalances(broker) == before
    for member in members:
        member.leave()


def test_groups_are_listed_by_state_and_type(
    broker: KafscaleProcess, client: Confluent, topic: str
) -> None:
    empty, stable = f"{topic}-empty", f"{topic}-stable"
    client.commit(empty, topic, {0: 3})
    member = ConfluentMember(broker.bootstrap, stable, topic)
    drive([member], lambda: are_sharing([member]), "alone")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def listed(**wanted: object) -> set[str]:
        found = admin.list_consumer_groups(**wanted).result()
        assert found.errors == []
        return {row.group_id for row in found.valid} & {empty, stable}

    assert listed() == {empty, stable}
    assert listed(states={ConsumerGroupState.STABLE}) == {stable}
    assert listed(states={ConsumerGroupState.EMPTY}) == {empty}
    assert listed(states={ConsumerGroupState.DEAD}) == set()
    assert listed(types={ConsumerGroupType.CLASSIC}) == {empty, stable}
    assert listed(types={ConsumerGroupType.CONSUMER}) == set()
    member.leave()


def test_kafka_consumer_groups_lists_describes_and_resets(
    broker: KafscaleProcess, client: Confluent, topic: str, jars: str
) -> None:
    client.commit(topic, topic, {0: 3, 1: 10})
    assert topic in run(broker, jars, GROUPS, "--list", "--state", "Empty")
    assert topic not in run(broker, jars, GROUPS, "--list", "--state", "Stable")
    assert topic in run(broker, jars, GROUPS, "--list", "--type", "classic")
    shown = run(broker, jars, GROUPS, "--describe", "--group", topic)
    rows = [line.split() for line in shown.splitlines() if line.startswith(topic)]
    assert sorted(row[2:6] for row in rows) == [["0", "3", "10", "7"], ["1", "10", "10", "0"]]
    run(
        *(broker, jars, GROUPS, "--reset-offsets", "--group", topic, "--topic", topic),
        *("--to-earliest", "--execute"),
    )
    assert [client.committed(topic, topic, at) for at in range(PARTITIONS)] == [0] * PARTITIONS


def test_kafka_consumer_groups_deletes_offsets_but_not_those_in_use(
    broker: KafscaleProcess, client: Confluent, topic: str, jars: str
) -> None:
    client.commit(topic, topic, {0: 3, 1: 10})
    deleting = ("--delete-offsets", "--group", topic, "--topic")
    shown = run(broker, jars, GROUPS, *deleting, f"{topic}:0")
    assert "Successful" in shown
    assert [client.committed(topic, topic, at) for at in (0, 1)] == [None, 10]
    member = ConfluentMember(broker.bootstrap, topic, topic)
    drive([member], lambda: are_sharing([member]), "alone")
    assert "Error" in run(broker, jars, GROUPS, *deleting, f"{topic}:1")
    assert client.committed(topic, topic, 1) == 10
    member.leave()


def test_kafka_leader_election_finds_nothing_to_do(
    broker: KafscaleProcess, topic: str, jars: str
) -> None:
    shown = run(
        *(broker, jars, f"{TOOLS}.LeaderElectionCommand", "--election-type", "preferred"),
        *("--topic", topic, "--partition", "0"),
    )
    assert f"{topic}-0" in shown


def test_a_client_that_wants_to_log_in_is_told_that_no_login_exists(
    broker: KafscaleProcess,
) -> None:
    told: list[KafkaError] = []
    admin = AdminClient(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "error_cb": told.append,
            "log_level": 0,
        }
    )
    deadline = time.monotonic() + WITHIN_S
    while not any(problem.code() == KafkaError._AUTHENTICATION for problem in told):
        assert time.monotonic() < deadline, told
        admin.poll(0.2)
