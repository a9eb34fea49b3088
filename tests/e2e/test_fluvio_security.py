"""Fluvio's client with certificates, against a broker that lets no client in without a name."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.e2e.conftest import AGAINST
from tests.support.audited import wait_for_line
from tests.support.cargo import BUILD_AND_TEST_S
from tests.support.certificates import Authority
from tests.support.fluvio_clients import FluvioClient, python_client, rust_client
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.secured import SecuredProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(BUILD_AND_TEST_S),
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka does not speak Fluvio"),
]
DOMAIN = "fluvio.test"


class SecuredFluvio(SecuredProcess):
    """Asks Fluvio clients for certificates; ANONYMOUS, by PLAINTEXT, may do everything."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.own = self.authority.issue("broker", file_name="broker", hosts=[DOMAIN, f"*.{DOMAIN}"])
        self.sc_port = free_port()
        self.audit_file = folder / "audit.jsonl"

    @property
    def control(self) -> str:
        return f"127.0.0.1:{self.sc_port}"

    def prepare(self) -> None:
        super().prepare()
        settings = json.loads(self.config_file.read_text())
        settings["fluvio"] = {
            "scPort": self.sc_port,
            "spuPort": 0,
            "protocol": "SSL",
            "clientAuth": "required",
        }
        settings["authorization"] = {"enabled": True, "superUsers": ["User:ANONYMOUS"]}
        settings["audit"] = {"file": str(self.audit_file)}
        self.config_file.write_text(json.dumps(settings))

    def environment(self) -> dict[str, str]:
        env = super().environment()
        del env["KAFSCALE_FLUVIO_ENABLED"]
        return env

    def client(self, base: FluvioClient, authority: Authority, name: str) -> FluvioClient:
        issued = authority.issue(name)
        return base.with_files(DOMAIN, issued.key, issued.certificate, self.authority.file)

    def allow(self, name: str, topic: str, *operations: AclOperation) -> None:
        rules = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                f"User:{name}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for made in admin.create_acls(rules).values():
            made.result(30)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredFluvio]:
    with SecuredFluvio(tmp_path_factory.mktemp("secured-fluvio")) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        for made in admin.create_topics([NewTopic("orders", 1), NewTopic("hidden", 1)]).values():
            made.result(30)
        started.allow("alice", "orders", AclOperation.READ, AclOperation.WRITE)
        started.allow("bob", "orders", AclOperation.DESCRIBE)
        started.allow("alice", "of-alice", AclOperation.CREATE)
        yield started


@pytest.mark.parametrize("make", [python_client, rust_client])
def test_certificates_say_who_a_client_is_and_rules_what_it_may_do(
    broker: SecuredFluvio, make: object
) -> None:
    assert callable(make)
    try:
        base: FluvioClient = make()
    except Unavailable as reason:
        pytest.skip(str(reason))
    alice = broker.client(base, broker.authority, "alice")
    shown = alice.run(broker.control, "produce", "orders", "default", "k=v")
    offset = shown[0]["offset"]
    lines = alice.run(broker.control, "read", "orders", str(offset), "1")
    assert [(line["key"], line["value"]) for line in lines] == [("k", "v")]


def test_what_is_denied_is_refused_and_written_down(broker: SecuredFluvio) -> None:
    try:
        base = python_client()
    except Unavailable as reason:
        pytest.skip(str(reason))
    bob = broker.client(base, broker.authority, "bob")
    (refused,) = bob.run(broker.control, "try-to-produce", "orders")
    assert "permission denied" in refused["error"]
    (unseen,) = bob.run(broker.control, "try-to-produce", "hidden")
    assert "Topic not found" in unseen["error"]
    (created,) = bob.run(broker.control, "create", "of-bob")
    assert "permission denied" in created["error"].lower()
    stranger = broker.client(base, broker.stranger, "alice")
    (failed,) = stranger.run(broker.control, "create", "of-a-stranger")
    assert "error" in failed
    alice = broker.client(base, broker.authority, "alice")
    assert alice.run(broker.control, "create", "of-alice") == [{"created": "of-alice"}]
    file, bob_is = broker.audit_file, {"principal": "User:bob"}
    wait_for_line(
        file, "denied", **bob_is, api="FluvioProduce", operation="WRITE", resources=["orders"]
    )
    wait_for_line(
        file, "denied", **bob_is, api="FluvioCreate", operation="CREATE", resources=["of-bob"]
    )
    wait_for_line(
        file,
        "change",
        outcome="ok",
        principal="User:alice",
        api="FluvioCreate",
        resources=["of-alice"],
    )
    wait_for_line(file, "authentication_failed", listener="FLUVIO_SC")
