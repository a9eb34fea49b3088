"""Two brokers on a real etcd, with TLS, logins, access control lists and quotas.

What is changed at one broker counts at the other. While etcd is away both decide by what they knew:
they neither lock their users out nor let others in.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.e2e.conftest import AGAINST, watched
from tests.support import etcd, secured
from tests.support.seaweed import SeaweedServer
from tests.support.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    CLOSED,
    DENIED_PASSWORD,
    DENIED_USER,
    TOPIC,
    SecuredProcess,
)
from tests.support.secured_clients import by_confluent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka has no etcd"),
]
PATIENCE_S = 60.0
SOON_S = 5  # a request that etcd would have to answer gives up then


class Fleet:
    """Two brokers; changes are made at the first one."""

    def __init__(self, brokers: list[SecuredProcess], server: etcd.EtcdCluster) -> None:
        self.brokers = brokers
        self.etcd = server
        self.admin = AdminClient({"bootstrap.servers": brokers[0].bootstrap, "log_level": 0})

    def create_user(self, user: str, password: str) -> None:
        strong = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        wish = UserScramCredentialUpsertion(user, strong, password.encode())
        self.admin.alter_user_scram_credentials([wish])[user].result(PATIENCE_S)

    def delete_user(self, user: str) -> None:
        wish = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
        self.admin.alter_user_scram_credentials([wish])[user].result(PATIENCE_S)

    def allow(self, user: str, topic: str, within_s: float = PATIENCE_S) -> None:
        wishes = [AclBinding(*right) for right in rights(user, topic)]
        for done in self.admin.create_acls(wishes, request_timeout=within_s).values():
            done.result(within_s + SOON_S)

    def forbid(self, user: str, topic: str) -> None:
        wishes = [AclBindingFilter(*right) for right in rights(user, topic)]
        for done in self.admin.delete_acls(wishes).values():
            done.result(PATIENCE_S)

    def tried(self, at: int, user: str, password: str, topic: str = TOPIC) -> str:
        """What a client of one broker is told, "" if it could write and read."""
        broker = self.brokers[at]
        login = secured.with_password(broker, "SCRAM-SHA-256", user, password)
        return by_confluent(broker.at("SASL_SSL"), "round-trip", topic, login)


def rights(user: str, topic: str) -> Iterator[tuple[Any, ...]]:
    for kind, name, operation in (
        (ResourceType.TOPIC, topic, AclOperation.READ),
        (ResourceType.TOPIC, topic, AclOperation.WRITE),
        (ResourceType.GROUP, "*", AclOperation.READ),
    ):
        pattern, who = ResourcePatternType.LITERAL, f"User:{user}"
        yield kind, name, pattern, who, "*", operation, AclPermissionType.ALLOW


@pytest.fixture
def fleet(tmp_path: Path, seaweed_server: SeaweedServer) -> Iterator[Fleet]:
    if reason := etcd.missing():
        pytest.skip(reason)
    with ExitStack() as undo:
        server = undo.enter_context(etcd.EtcdCluster(1))
        env = {
            "KAFSCALE_ETCD_ENDPOINTS": ",".join(server.endpoints),
            "KAFSCALE_ETCD_LEASE_TTL": "90s",  # longer than etcd is away here
            **seaweed_server.broker_environment(f"secured-{server.members[0].port}"),
        }
        brokers: list[SecuredProcess] = []
        for number in range(2):
            folder = tmp_path / f"broker-{number}"
            fellow = brokers[0] if brokers else None
            brokers.append(SecuredProcess(folder, env, fellow))
            undo.enter_context(watched(brokers[-1]))
        made = Fleet(brokers, server)
        for done in made.admin.create_topics([NewTopic(TOPIC, 1), NewTopic(CLOSED, 1)]).values():
            done.result(PATIENCE_S)
        yield made


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    """Tell how long it took: a second is what the documents promise."""
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() < began_s + PATIENCE_S, what
    print(f"{what}: after {time.monotonic() - began_s:.2f} s, one try of a client included")


def test_changes_reach_all_brokers_and_hold_while_etcd_is_away(fleet: Fleet) -> None:
    fleet.create_user(DENIED_USER, DENIED_PASSWORD)
    fleet.create_user("frank", "franks-password")
    assert "authorization" in fleet.tried(0, "frank", "franks-password")
    fleet.allow("frank", TOPIC)
    wait_until("a user and its rights", lambda: not fleet.tried(1, "frank", "franks-password"))

    fleet.etcd.pause()
    try:
        for at in range(2):
            assert fleet.tried(at, "frank", "franks-password") == ""
            assert fleet.tried(at, ADMIN, ADMIN_PASSWORD) == ""
            assert "uthentication" in fleet.tried(at, "frank", "wrong")
            assert "uthentication" in fleet.tried(at, "stranger", "franks-password")
            for user, password in (("frank", "franks-password"), (DENIED_USER, DENIED_PASSWORD)):
                assert "authorization" in fleet.tried(at, user, password, CLOSED)
        with pytest.raises(KafkaException):  # what cannot be kept is not promised
            fleet.allow("frank", CLOSED, within_s=SOON_S)
        assert "authorization" in fleet.tried(0, "frank", "franks-password", CLOSED)
    finally:
        fleet.etcd.resume()

    fleet.forbid("frank", TOPIC)
    wait_until(
        "rights that are gone",
        lambda: "authorization" in fleet.tried(1, "frank", "franks-password"),
    )
    fleet.delete_user("frank")
    wait_until(
        "a user who is gone",
        lambda: "uthentication" in fleet.tried(1, "frank", "franks-password"),
    )
