"""TLS and logins by the Python client of Pulsar, and what it shows when it is refused."""

import base64
import json
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.e2e.conftest import watched
from tests.support.audited import wait_for_line
from tests.support.ports import free_port
from tests.support.pulsar_client import unique
from tests.support.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    PLAIN_PASSWORD,
    PLAIN_USER,
    SecuredProcess,
)

pytestmark = pytest.mark.slow

Refused = pulsar.exceptions.PulsarException


class SecuredPulsar(SecuredProcess):
    """Its Pulsar door asks of clients what one of Kafka's listeners asks."""

    listener = "SASL_SSL"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.http_port = free_port()
        self.audit_file = folder / "audit.jsonl"

    def prepare(self) -> None:
        super().prepare()
        settings = json.loads(self.config_file.read_text())
        settings["pulsar"] = {"listener": self.listener, "httpPort": self.http_port}
        settings["audit"] = {"file": str(self.audit_file)}
        known = ["User:ANONYMOUS", f"User:{ADMIN}"]  # administration needs no login here
        settings["authorization"] = {"enabled": True, "superUsers": known}
        self.config_file.write_text(json.dumps(settings))

    def client(self, authentication: pulsar.Authentication | None = None) -> pulsar.Client:
        return pulsar.Client(
            f"pulsar+ssl://localhost:{self.pulsar_port}",
            authentication=authentication,
            tls_trust_certs_file_path=str(self.authority.file),
            operation_timeout_seconds=20,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )


class MutualPulsar(SecuredPulsar):
    """Clients show certificates."""

    listener = "MUTUAL"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPulsar]:
    with watched(SecuredPulsar(tmp_path_factory.mktemp("pulsar"))) as started:
        yield started


def round_trip(client: pulsar.Client, topic: str) -> bytes:
    try:
        producer = client.create_producer(topic)
        producer.send(b"hello")
        consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        message = consumer.receive(20_000)
        consumer.acknowledge(message)
        return bytes(message.data())
    finally:
        client.close()


def allow(broker: SecuredPulsar, user: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    rows = [
        (ResourceType.TOPIC, topic, AclOperation.ALL),
        (ResourceType.GROUP, "pulsar:s", AclOperation.READ),
    ]
    bindings = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for kind, name, operation in rows
    ]
    for future in admin.create_acls(bindings).values():
        future.result(20)


def test_a_user_with_a_password_uses_what_it_may(broker: SecuredPulsar) -> None:
    for user, password in ((ADMIN, ADMIN_PASSWORD), (PLAIN_USER, PLAIN_PASSWORD)):
        topic = f"of-{user}"
        allow(broker, user, topic)
        login = pulsar.AuthenticationBasic(user, password)
        assert round_trip(broker.client(login), topic) == b"hello"


def test_a_token_is_good_for_its_subject(broker: SecuredPulsar) -> None:
    allow(broker, "tina", "acme/billing/of-tina")
    login = pulsar.AuthenticationToken(broker.issuer.token("tina"))
    topic = "persistent://acme/billing/of-tina"
    assert round_trip(broker.client(login), topic) == b"hello"


@pytest.mark.parametrize("method", ["none", "basic", "token"])
def test_a_client_that_is_refused_hears_it_at_once(broker: SecuredPulsar, method: str) -> None:
    logins = {
        "none": None,
        "basic": pulsar.AuthenticationBasic(PLAIN_USER, "wrong"),
        "token": pulsar.AuthenticationToken(broker.issuer.token("tina", lifetime_s=-3600)),
    }
    with pytest.raises(Refused, match="AuthenticationError"):
        round_trip(broker.client(logins[method]), "of-a-stranger")
    wait_for_line(broker.audit_file, "authentication_failed", listener="PULSAR")


def test_what_no_rule_allows_is_denied(broker: SecuredPulsar) -> None:
    login = pulsar.AuthenticationBasic(PLAIN_USER, PLAIN_PASSWORD)
    with pytest.raises(Refused, match="AuthorizationError"):
        round_trip(broker.client(login), "of-another")
    who = f"User:{PLAIN_USER}"
    wait_for_line(broker.audit_file, "denied", principal=who, resources=["of-another"])


def test_changes_by_the_admin_api_are_written_down(broker: SecuredPulsar) -> None:
    topics = f"https://localhost:{broker.http_port}/admin/v2/persistent/public/default"
    page = f"{topics}/{unique('by-admin')}"
    word = base64.b64encode(f"{ADMIN}:{ADMIN_PASSWORD}".encode()).decode()
    wish = urllib.request.Request(
        page, method="PUT", headers={"Authorization": f"Basic {word}"}, data=b""
    )
    trust = ssl.create_default_context(cafile=str(broker.authority.file))
    with urllib.request.urlopen(wish, timeout=30, context=trust) as answer:
        assert answer.status < 300
    who = f"User:{ADMIN}"
    wait_for_line(broker.audit_file, "change", outcome="ok", principal=who, api="PulsarAdmin")


def test_a_client_shows_its_certificate(tmp_path: Path) -> None:
    with watched(MutualPulsar(tmp_path)) as broker:
        assert isinstance(broker, MutualPulsar)
        allow(broker, "carla", "of-carla")
        own = broker.authority.issue("carla")
        login = pulsar.AuthenticationTLS(str(own.certificate), str(own.key))
        assert round_trip(broker.client(login), "of-carla") == b"hello"
        strange = broker.stranger.issue("carla")
        unknown = pulsar.AuthenticationTLS(str(strange.certificate), str(strange.key))
        with pytest.raises(Refused):
            pulsar.Client(
                f"pulsar+ssl://localhost:{broker.pulsar_port}",
                authentication=unknown,
                tls_trust_certs_file_path=str(broker.authority.file),
                operation_timeout_seconds=2,
                logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
            ).create_producer("of-carla")
