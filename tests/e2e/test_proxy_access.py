"""Rules in front of `kafscale proxy`: the access control lists of the cluster behind it.

Every request of every user of the table (tests/support/access_table.py) is answered by the proxy as
Apache Kafka answers it, as far as leave goes. Then a real client, the audit log and the page for
operators.
"""

import asyncio
import json
import re
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from kafscale.proxy.access.front import versions_of
from kafscale.wire.kafka.messages.create_acls import CreateAclsRequest
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest
from tests.e2e.conftest import watched
from tests.e2e.test_access_table import User, acls_seen
from tests.support.access_table import (
    REQUESTS,
    TOPIC,
    USERS,
    acl_of,
    doomed,
    judge,
    key_of,
    name_for,
    read_answers,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import KafscaleProcess
from tests.support.certificates import Authority
from tests.support.exposition import parse, series
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.proxy import ProxyProcess
from tests.support.proxy_load import read, write

pytestmark = pytest.mark.slow
ADMIN = "admin"
MAPPING = {
    "topics": {
        TOPIC: {"virtual_partitions": 2, "physical_partitions": 1},
        "mapped.*": {"virtual_partitions": 6, "physical_partitions": 2},
    }
}


class RuledProxy(ProxyProcess):
    """A proxy whose users log in, before a cluster with access control lists."""

    def __init__(self, upstream: str, users: Path) -> None:
        users.write_text("".join(f"{one}={one}\n" for one in (ADMIN, "alice", *USERS)))
        super().__init__(
            upstream,
            MAPPING,
            listen={
                "sasl": {"users_file": str(users)},
                "acls": {"super_users": [f"User:{ADMIN}"]},
            },
            metrics={"address": f"127.0.0.1:{free_port()}"},
        )

    def answers(self) -> bool:
        return "proxy_started" in self.tail()


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafscaleProcess]:
    """A Kafscale broker: about leave it answers as Apache Kafka does, and it starts fast."""
    settings = ["authorization.enabled=true", "authorization.superUsers=User:ANONYMOUS"]
    with KafscaleProcess(settings=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def proxy(
    cluster: KafscaleProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RuledProxy]:
    users = tmp_path_factory.mktemp("users") / "users"
    with watched(RuledProxy(cluster.bootstrap, users)) as running:
        assert isinstance(running, RuledProxy)
        yield running


def said_by(proxy: ProxyProcess, path: str) -> str:
    page = f"http://{proxy.tree['metrics']['address']}/{path}"
    with urllib.request.urlopen(page, timeout=30) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def as_user(name: str) -> dict[str, object]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": name,
    }


def allow(
    admin: AdminClient, kind: ResourceType, name: str, *operations: AclOperation
) -> list[AclBinding]:
    """Give alice leave for names that begin so."""
    made = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.PREFIXED,
            "User:alice",
            "*",
            one,
            AclPermissionType.ALLOW,
        )
        for one in operations
    ]
    for done in admin.create_acls(made).values():
        done.result()
    return made


def code_of_writing(proxy: ProxyProcess, topic: str) -> int:
    """The error that alice gets for a record, 0 if it is stored."""
    producer = Producer({"bootstrap.servers": proxy.bootstrap, **as_user("alice")})
    codes: list[int] = []
    producer.produce(
        topic,
        b"x",
        partition=0,
        on_delivery=lambda error, _: codes.append(error.code() if error else 0),
    )
    assert producer.flush(120) == 0
    return codes[0]


def try_as_alice(below: str, proxy: ProxyProcess, kind: str) -> None:
    """A real client does what it is allowed, and no more. `below`: the cluster's own address."""
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap, **as_user(ADMIN)})
    own, foreign, seen = f"{kind}-alice", f"{kind}-secret", f"{kind}-seen"
    for topic in (own, foreign, seen):
        admin.create_topics([NewTopic(topic, 6)])[topic].result()
    allow(admin, ResourceType.TOPIC, own, AclOperation.READ, AclOperation.WRITE)
    allow(admin, ResourceType.TOPIC, seen, AclOperation.DESCRIBE)
    allow(admin, ResourceType.GROUP, f"{kind}-", AclOperation.READ)
    alice = AdminClient({"bootstrap.servers": proxy.bootstrap, **as_user("alice")})
    assert alice.list_topics(timeout=30).topics.keys() == {own, seen}
    with pytest.raises(KafkaException):
        alice.delete_topics([own])[own].result()
    rows = [(partition, b"%d" % partition) for partition in range(6)]
    assert write(proxy.bootstrap, own, rows, **as_user("alice")) == [0] * 6
    more = {**as_user("alice"), "group.id": f"{kind}-group"}
    found = read(proxy.bootstrap, own, list(range(6)), 6, **more)
    assert found == {partition: [(0, b"%d" % partition)] for partition in range(6)}
    assert code_of_writing(proxy, seen) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert code_of_writing(proxy, foreign) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    denied = [
        json.loads(line) for line in proxy.tail(100_000).splitlines() if '"event":"audit"' in line
    ]
    lines = [
        (line["api"], line["operation"])
        for line in denied
        if line["principal"] == "User:alice" and seen in line["resources"]
    ]
    assert ("Produce", "WRITE") in lines
    # The cluster's own tools take leave away, behind the proxy's back.
    tools = AdminClient({"bootstrap.servers": below})
    mine = AclBindingFilter(
        ResourceType.TOPIC,
        own,
        ResourcePatternType.PREFIXED,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for done in tools.delete_acls([mine]).values():
        assert done.result()
    deadline = time.monotonic() + 60
    while code_of_writing(proxy, own) != KafkaError.TOPIC_AUTHORIZATION_FAILED:
        assert time.monotonic() < deadline


def test_a_client_does_what_it_is_allowed_and_no_more(
    cluster: KafscaleProcess, proxy: RuledProxy
) -> None:
    try_as_alice(cluster.bootstrap, proxy, "plain")


def test_a_clients_certificate_says_who_it_is(cluster: KafscaleProcess, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    own = authority.issue("proxy")
    tls = {
        "cert_path": str(own.certificate),
        "key_path": str(own.key),
        "ca_cert_path": str(authority.file),
        "require_client_cert": True,
    }
    proxy = ProxyProcess(
        cluster.bootstrap,
        MAPPING,
        listen={"tls": tls, "acls": {"super_users": ["User:CN=admin,OU=tests"]}},
    )
    proxy.answers = lambda: "proxy_started" in proxy.tail()  # type: ignore[method-assign]

    def by_certificate(name: str) -> dict[str, object]:
        issued = authority.issue(name)
        return {
            "bootstrap.servers": proxy.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.file),
            "ssl.certificate.location": str(issued.certificate),
            "ssl.key.location": str(issued.key),
        }

    with watched(proxy):
        admin = AdminClient(by_certificate("admin"))
        admin.create_topics([NewTopic("plain-by-certificate", 2)])["plain-by-certificate"].result()
        binding = AclBinding(
            ResourceType.TOPIC,
            "plain-by-certificate",
            ResourcePatternType.LITERAL,
            "User:CN=alice,OU=tests",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )
        for done in admin.create_acls([binding]).values():
            done.result()
        for name, seen in (("alice", {"plain-by-certificate"}), ("bob", set())):
            client = AdminClient(by_certificate(name))
            assert client.list_topics(timeout=30).topics.keys() == seen
            with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
                client.create_topics([NewTopic("plain-more", 1)])["plain-more"].result()
        nameless = {"security.protocol": "SSL", "ssl.ca.location": str(authority.file)}
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": proxy.bootstrap, **nameless}).list_topics(timeout=5)


class RuledKafka(ApacheKafka):
    """Apache Kafka with its own authorizer. Who does not log in may do everything."""

    more_settings = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
group.initial.rebalance.delay.ms=0
"""


def test_the_lists_of_an_apache_kafka_count_at_virtual_partitions(tmp_path: Path) -> None:
    try:
        kafka = RuledKafka()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with watched(kafka), watched(RuledProxy(kafka.bootstrap, tmp_path / "users")) as running:
        assert isinstance(running, RuledProxy)
        try_as_alice(kafka.bootstrap, running, "mapped")


def test_operators_see_what_the_proxy_does(proxy: RuledProxy) -> None:
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap, **as_user(ADMIN)})
    before = parse(said_by(proxy, "metrics").encode())
    mark = uuid.uuid4().hex[:8]
    mapped, plain = f"mapped-shown-{mark}", f"plain-shown-{mark}"
    for topic in (mapped, plain):
        admin.create_topics([NewTopic(topic, 6)])[topic].result()
    every = {TopicPartition(mapped, one): OffsetSpec.latest() for one in range(6)}
    assert [found.result().offset for found in admin.list_offsets(every).values()] == [0] * 6
    assert write(proxy.bootstrap, plain, [(0, b"x")], **as_user(ADMIN)) == [0]
    assert read(proxy.bootstrap, plain, [0], 1, **as_user(ADMIN)) == {0: [(0, b"x")]}
    assert code_of_writing(proxy, plain) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert json.loads(said_by(proxy, "health")) == {"alive": True}
    assert json.loads(said_by(proxy, "ready"))["ready"]
    found = parse(said_by(proxy, "metrics").encode())
    for api in ("Produce", "Fetch", "Metadata", "SaslHandshake"):
        assert found[series("kafscale_proxy_requests_total", api=api)] > 0
    for name in ("received", "sent"):
        for side in ("clients", "upstream"):
            assert found[series(f"kafscale_proxy_{name}_bytes_total", side=side)] > 0
    for name, more in (("partitions", 2), ("virtual_partitions", 6)):
        owned = series(f"kafscale_proxy_owned_{name}")
        assert found[owned] == before[owned] + more
    assert found[series("kafscale_proxy_proxies")] == 1
    assert found[series("kafscale_proxy_take_overs_total")] == 0
    denied = series("kafscale_proxy_audit_events_total", kind="denied", outcome="denied")
    assert found[denied] > 0
    assert series("kafscale_proxy_connections") in found
    assert series("kafscale_proxy_upstream_errors_total", kind="append") in found


_COORDINATOR_AWAY = re.compile(r"error_code=1[456]\b")


async def test_every_user_is_answered_as_by_apache_kafka(proxy: ProxyProcess) -> None:
    answers = read_answers()
    different: dict[tuple[str, str], tuple[str, str]] = {}
    async with User(proxy.port) as admin:
        await admin.log_in(ADMIN)
        for name in (TOPIC, *(doomed(name_for(number)) for number in range(len(USERS)))):
            assert (await admin.create(name)).error_code == 0
        acls = [acl_of(user, grant) for user, grants in USERS.items() for grant in grants]
        results = (await admin.ask(CreateAclsRequest(acls), 3)).results
        assert {row.error_code for row in results} == {0}
        while (await admin.ask(acls_seen(), 3)).resources == []:
            await asyncio.sleep(0.1)
        brokers = (await admin.ask(MetadataRequest([]), 9)).brokers
    door = next(one.port for one in brokers if one.port != proxy.port)
    async with User(door) as admin:
        await admin.log_in(ADMIN)
        for known in ("FindCoordinator of groups", "OffsetCommit"):
            version, make = REQUESTS[known]
            while _COORDINATOR_AWAY.search(str(await admin.ask(make("a"), version))):
                await asyncio.sleep(0.2)  # the topic of the offsets is being made
    for number, user in enumerate(USERS):
        # Broker requests and those of virtual partitions, in turns.
        async with User(door if number % 2 else proxy.port) as caller:
            await caller.log_in(user)
            for name, (version, make) in REQUESTS.items():
                offered = versions_of(key_of(name))
                if not offered or name == "DeleteTopics by id":
                    continue
                request = make(name_for(number))
                if isinstance(request, DeleteTopicsRequest):  # the form of older versions
                    request = DeleteTopicsRequest([], [doomed(name_for(number))], 10_000)
                found = judge(await caller.ask(request, min(version, offered[-1])))
                expected = answers[name].get(user, answers[name]["others"])
                if found != expected:
                    different[name, user] = (found, expected)
    assert different == {}, different
