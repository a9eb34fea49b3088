"""`kafscale proxy` with two listeners: clients stay with the one that they came in by."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.e2e.conftest import watched
from tests.support.apache_kafka import ApacheKafka
from tests.support.certificates import Authority
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.proxy import ProxyProcess
from tests.support.proxy_load import create, read, write

pytestmark = pytest.mark.slow
MAPPING = {"topics": {"mapped.*": {"virtual_partitions": 12, "physical_partitions": 6}}}


class ListeningProxy(ProxyProcess):
    """Inside without encryption; outside, at another name, with encryption and logins."""

    def __init__(
        self, upstream: str, number: int, authority: Authority, users: Path, *names: str
    ) -> None:
        super().__init__(upstream, MAPPING, number=number, ledger="listeners")
        self.outside_port = free_port()
        self.authority = authority
        keys = authority.issue(f"proxy-{number}")
        del self.tree["listen"]
        inside: dict[str, object] = {"name": "INSIDE", "port": self.port}
        outside: dict[str, object] = {
            "name": "OUTSIDE",
            "protocol": "SASL_SSL",
            "port": self.outside_port,
            "advertisedHost": "localhost",
            "certFile": str(keys.certificate),
            "keyFile": str(keys.key),
            "mechanisms": ["SCRAM-SHA-256"],
            "usersFile": str(users),
        }
        self.tree["listeners"] = [one for one in (inside, outside) if one["name"] in names]

    @property
    def outside(self) -> str:
        return f"localhost:{self.outside_port}"

    def login(self, password: str = "wonderland") -> dict[str, object]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.file),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": password,
        }


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    try:
        made = ApacheKafka()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with watched(made):
        yield made


def brokers(bootstrap: str, within_s: float = 30, **how: object) -> dict[int, tuple[str, int]]:
    found = AdminClient({"bootstrap.servers": bootstrap, **how}).list_topics(timeout=within_s)
    return {node: (row.host, row.port) for node, row in found.brokers.items()}


def test_answers_go_by_the_listener_that_a_client_came_in_by(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    authority, users = Authority(tmp_path, "proxies"), tmp_path / "users"
    users.write_text("alice=wonderland\n")

    def a_proxy(number: int, *names: str) -> ListeningProxy:
        return ListeningProxy(kafka.bootstrap, number, authority, users, *names)

    both = [a_proxy(number, "INSIDE", "OUTSIDE") for number in range(2)]
    first, second = both
    with watched(first):
        with watched(second):
            inside, outside = brokers(first.bootstrap), brokers(first.outside, **first.login())
            assert {host for host, _ in inside.values()} == {"127.0.0.1"}
            assert {host for host, _ in outside.values()} == {"localhost"}
            assert inside.keys() == outside.keys() == {1, 1_000_000, 1_000_001}
            assert not set(dict(inside.values()).values()) & set(dict(outside.values()).values())
            for number, proxy in enumerate(both):
                assert inside[1_000_000 + number] == ("127.0.0.1", proxy.port)
                assert outside[1_000_000 + number] == ("localhost", proxy.outside_port)
            rows = [(at, b"%d" % at) for at in range(12)]
            create(first.bootstrap, "mapped", 12)
            create(first.bootstrap, "plain", 12)
            for topic in ("mapped", "plain"):  # plain: by the addresses that stand for brokers
                assert write(second.outside, topic, rows, **second.login()) == [0] * 12
                found = read(first.bootstrap, topic, list(range(12)), 12)
                assert found == {at: [(0, b"%d" % at)] for at in range(12)}
            with pytest.raises(KafkaException):
                brokers(first.outside, 3, **first.login("no"))
        with watched(a_proxy(2, "INSIDE")) as third:
            assert brokers(first.bootstrap).keys() == {1, 1_000_000, 1_000_002}
            assert brokers(first.outside, **first.login()).keys() == {1, 1_000_000}
            assert read(third.bootstrap, "mapped", [0, 11], 2)[11] == [(0, b"11")]
