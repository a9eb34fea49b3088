"""Consumer groups with unmodified clients at default settings."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.clients import CLIENTS
from tests.support.clients.base import Client, Member, Record, Stored
from tests.support.clients.confluent import Confluent, ConfluentMember
from tests.support.clients.driven import Driven
from tests.support.maven import Unavailable
from tests.support.process import BrokerProcess

SUBSCRIBERS = ["confluent", "kafka-python", "aiokafka", "java-4", "java-2.8"]
# Without any broker these forget the topics they knew, and join again because "cached metadata has
# changed": the reason they give in JoinGroup. What they had read and not committed they read twice.
FORGETFUL = {"java-4"}
PARTITIONS = 6
WITHIN_S = 120.0
_names = itertools.count()


class Crowd:
    """The members of one group, polled in turn, and what they have seen together."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.seen: list[Stored] = []

    def drive(self, wanted: Callable[[], bool], what: str) -> None:
        """Poll everyone until it is as wanted."""
        deadline = time.monotonic() + WITHIN_S
        while not wanted():
            assert time.monotonic() < deadline, f"{what}: {self.shares()}, {len(self.seen)} seen"
            for member in self.members:
                self.seen += member.poll()

    def shares(self) -> list[set[int]]:
        return [member.partitions() for member in self.members]

    def are_sharing(self) -> bool:
        """Whether every partition has one owner and every member some partitions."""
        shares = self.shares()
        return all(shares) and sorted(itertools.chain(*shares)) == list(range(PARTITIONS))

    def has_seen(self, count: int) -> bool:
        return len(self.seen) >= count

    def values(self) -> list[bytes]:
        return [stored.value or b"" for stored in self.seen]

    def leave(self) -> None:
        while self.members:
            self.members.pop().leave()


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    crowd = Crowd()
    with ExitStack() as undo:
        undo.callback(crowd.leave)
        yield crowd


def fill(client: Client, topic: str, first: int, count: int) -> set[bytes]:
    records = [Record(n % PARTITIONS, None, b"%d" % n) for n in range(first, first + count)]
    client.produce(topic, records)
    return {record.value or b"" for record in records}


def new_topic(admin: Client, purpose: str) -> str:
    topic = f"{purpose}-{next(_names)}"
    admin.create_topic(topic, PARTITIONS)
    return topic


@pytest.fixture(scope="session")
def admin(client_named: Callable[[str], Client]) -> Client:
    return client_named("confluent")


@pytest.mark.parametrize("name", SUBSCRIBERS)
def test_a_member_reads_everything_and_the_next_goes_on_where_it_has_committed(
    client_named: Callable[[str], Client], admin: Client, crowd: Crowd, name: str
) -> None:
    client = client_named(name)
    topic = new_topic(admin, "resumed")
    written: set[bytes] = set()
    for first in (0, 120):
        written |= fill(admin, topic, first, 120)
        crowd.members = [client.subscribe(topic, topic)]
        crowd.drive(partial(crowd.has_seen, first + 120), "reading")
        crowd.leave()
        assert sorted(crowd.values()) == sorted(written)
    assert [admin.committed(topic, topic, p) for p in range(PARTITIONS)] == [40] * PARTITIONS


@pytest.mark.parametrize("name", SUBSCRIBERS)
def test_two_members_share_the_partitions_until_one_leaves(
    client_named: Callable[[str], Client], admin: Client, crowd: Crowd, name: str
) -> None:
    client = client_named(name)
    topic = new_topic(admin, "shared")
    crowd.members = [client.subscribe(topic, topic)]
    crowd.drive(crowd.are_sharing, "alone")
    crowd.members.append(client.subscribe(topic, topic))
    crowd.drive(lambda: crowd.are_sharing() and len(crowd.members) == 2, "both")
    assert [len(share) for share in crowd.shares()] == [3, 3]
    written = fill(admin, topic, 0, 120)
    crowd.drive(lambda: len(crowd.seen) >= 120, "reading")
    assert sorted(crowd.values()) == sorted(written)
    crowd.members.pop(0).leave()
    crowd.drive(crowd.are_sharing, "alone again")
    written |= fill(admin, topic, 120, 120)
    crowd.drive(lambda: len(crowd.seen) >= 240, "reading on")
    assert sorted(crowd.values()) == sorted(written)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_the_clients_own_assignor_decides(
    broker: BrokerProcess, admin: Client, crowd: Crowd, assignor: str
) -> None:
    topic = new_topic(admin, assignor)
    written = fill(admin, topic, 0, 120)

    def join() -> Member:
        return ConfluentMember(
            broker.bootstrap, topic, topic, partition_assignment_strategy=assignor
        )

    for _ in range(3):
        crowd.members.append(join())
        crowd.drive(crowd.are_sharing, f"{len(crowd.members)} members")
    shares = crowd.shares()
    assert [len(share) for share in shares] == [2, 2, 2]
    if assignor == "range":
        assert sorted(map(sorted, shares)) == [[0, 1], [2, 3], [4, 5]]
    elif assignor == "roundrobin":
        assert sorted(map(sorted, shares)) == [[0, 3], [1, 4], [2, 5]]
    crowd.drive(lambda: written <= set(crowd.values()), "reading")
    crowd.members.pop().leave()
    crowd.drive(crowd.are_sharing, "two members")
    assert [len(share) for share in crowd.shares()] == [3, 3]


def _consumer_member(client: Client, topic: str) -> Member:
    """A member of a group whose coordinator assigns the partitions (KIP-848)."""
    if isinstance(client, Driven):
        return client.subscribe_by("consumer", topic, topic)
    return ConfluentMember(client.bootstrap, topic, topic, group_protocol="consumer")


@pytest.mark.parametrize("name", ["confluent", "java-4"])
def test_members_of_a_consumer_group_share_partitions_and_go_on_after_a_kill(
    own_broker: BrokerProcess, crowd: Crowd, name: str
) -> None:
    try:
        client = CLIENTS[name](own_broker.bootstrap)
    except Unavailable as reason:
        pytest.skip(f"{name}: {reason}")
    admin = Confluent(own_broker.bootstrap)
    topic = new_topic(admin, "coordinated")
    crowd.members = [_consumer_member(client, topic)]
    crowd.drive(crowd.are_sharing, "alone")
    crowd.members.append(_consumer_member(client, topic))
    crowd.drive(crowd.are_sharing, "both")
    assert [len(share) for share in crowd.shares()] == [3, 3]
    written = fill(admin, topic, 0, 120)
    crowd.drive(lambda: crowd.has_seen(120), "reading")
    assert sorted(crowd.values()) == sorted(written)
    own_broker.kill()
    own_broker.start()
    written |= fill(admin, topic, 120, 120)
    crowd.drive(lambda: written <= set(crowd.values()), "reading on")
    crowd.members.pop(0).leave()
    crowd.drive(crowd.are_sharing, "alone again")
    crowd.leave()
    assert [admin.committed(topic, topic, p) for p in range(PARTITIONS)] == [40] * PARTITIONS
    client.close()


@pytest.mark.parametrize("name", ["confluent"])  # it passes with java-4, too
def test_a_group_moves_to_the_newer_protocol_and_back_while_its_members_read(
    own_broker: BrokerProcess, crowd: Crowd, name: str
) -> None:
    try:
        client = CLIENTS[name](own_broker.bootstrap)
    except Unavailable as reason:
        pytest.skip(f"{name}: {reason}")
    admin = Confluent(own_broker.bootstrap)
    topic = new_topic(admin, "moving")
    written: set[bytes] = set()

    def read_on(what: str) -> None:
        """Every record that is written from here on has one reader."""
        nonlocal written
        crowd.drive(crowd.are_sharing, what)
        more = fill(admin, topic, len(written), 60)
        written |= more
        crowd.drive(lambda: more <= set(crowd.values()), what)
        assert sorted(value for value in crowd.values() if value in more) == sorted(more), what

    crowd.members = [client.subscribe(topic, topic) for _ in range(2)]
    read_on("both classic")
    crowd.members.append(_consumer_member(client, topic))
    read_on("one newer member beside them")
    crowd.members.pop(0).leave()
    crowd.members.pop().leave()
    read_on("one classic member is left")
    assert set(crowd.values()) == written
    crowd.leave()
    ends = [admin.committed(topic, topic, p) for p in range(PARTITIONS)]
    assert ends == [len(written) // PARTITIONS] * PARTITIONS
    client.close()


@pytest.mark.parametrize("name", SUBSCRIBERS)
def test_members_go_on_when_the_broker_was_killed_and_started_again(
    own_broker: BrokerProcess, crowd: Crowd, name: str
) -> None:
    try:
        client = CLIENTS[name](own_broker.bootstrap)
    except Unavailable as reason:
        pytest.skip(f"{name}: {reason}")
    admin = Confluent(own_broker.bootstrap)
    topic = new_topic(admin, "killed")
    crowd.members = [client.subscribe(topic, topic) for _ in range(2)]
    crowd.drive(crowd.are_sharing, "sharing")
    written = fill(admin, topic, 0, 120)
    crowd.drive(lambda: len(crowd.seen) >= 120, "reading")
    before = crowd.shares()
    own_broker.kill()
    own_broker.start()
    written |= fill(admin, topic, 120, 120)
    crowd.drive(lambda: written <= set(crowd.values()), "reading on")
    crowd.drive(crowd.are_sharing, "sharing again")
    if name not in FORGETFUL:
        assert crowd.shares() == before
        assert sorted(crowd.values()) == sorted(written)  # no member had to begin again
    crowd.leave()
    assert [admin.committed(topic, topic, p) for p in range(PARTITIONS)] == [40] * PARTITIONS
    client.close()


def test_a_commit_is_seen_by_the_question_behind_it(
    broker: BrokerProcess, client_named: Callable[[str], Client]
) -> None:
    topic = f"behind-{next(_names)}"
    client_named("confluent").create_topic(topic, 1)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    try:
        place = TopicPartition(topic, 0)
        assert consumer.committed([place], 30)[0].offset < 0
        seen = []
        for offset in range(40):
            commits = [TopicPartition(topic, 0, offset)]
            consumer.commit(offsets=commits, asynchronous=True)
            seen.append(consumer.committed([place], 30)[0].offset)
    finally:
        consumer.close()
    assert seen == list(range(40))
