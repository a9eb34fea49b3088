"""The secrets of logins are planted, used and looked for: passwords, tokens, certificate keys.

Clients log in at the doors of Kafka and Pulsar. The door of Fluvio knows certificates only.
"""

import asyncio
import json
import ssl
import urllib.request
from contextlib import closing, suppress
from pathlib import Path

import pulsar
import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.e2e.test_pulsar_security import SecuredPulsar
from tests.e2e.test_secrets import describe_broker, run_doctor
from tests.support import secured
from tests.support.secured import ADMIN, ADMIN_PASSWORD, PLAIN_PASSWORD, PLAIN_USER
from tests.support.secured_clients import by_confluent

pytestmark = pytest.mark.slow

WRONG = "planted-wrong-password"
NEW = "planted-scram-password"


class TalkativeBroker(SecuredPulsar):
    """Logs all it can, and lets everyone in who logs in."""

    def prepare(self) -> None:
        super().prepare()
        settings = json.loads(self.config_file.read_text())
        settings["authorization"] = {"enabled": False}
        self.config_file.write_text(json.dumps(settings))

    def environment(self) -> dict[str, str]:
        spoken = {"KAFSCALE_LOG_LEVEL": "debug", "KAFSCALE_LOG_FORMAT": "text"}
        return {**super().environment(), **spoken}

    def metrics(self) -> str:
        """Its page for operators, which has TLS."""
        trust = ssl.create_default_context(cafile=str(self.authority.file))
        page = f"https://localhost:{self.metrics_port}/metrics"
        with urllib.request.urlopen(page, timeout=30, context=trust) as answer:
            text: str = answer.read().decode()
        return text


def try_pulsar(broker: SecuredPulsar, login: pulsar.Authentication) -> bool:
    with closing(broker.client(login)) as client, suppress(pulsar.exceptions.PulsarException):
        client.create_producer("t").send(b"hello")
        return True
    return False


def test_a_broker_that_clients_log_in_to_shows_no_secret(tmp_path: Path) -> None:
    with TalkativeBroker(tmp_path / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(30)
        strong = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("eve", strong, NEW.encode())
        admin.alter_user_scram_credentials([change])["eve"].result(30)
        good, bad = broker.issuer.token("olga"), broker.issuer.token("olga", aud="another")
        ways = {
            "scram": secured.with_password(broker, "SCRAM-SHA-256", "eve", NEW),
            "admin": secured.with_password(broker, "SCRAM-SHA-512", ADMIN, ADMIN_PASSWORD),
            "plain": secured.with_password(broker, "PLAIN", PLAIN_USER, PLAIN_PASSWORD),
            "token": secured.with_token(broker, good),
            "wrong": secured.with_password(broker, "PLAIN", PLAIN_USER, WRONG),
            "no user": secured.with_password(broker, "SCRAM-SHA-256", "no-user", WRONG),
            "wrong token": secured.with_token(broker, bad),
        }
        failed = {
            name
            for name, settings in ways.items()
            if by_confluent(broker.at("SASL_SSL"), "round-trip", "t", settings)
        }
        assert failed == {"wrong", "no user", "wrong token"}
        assert try_pulsar(broker, pulsar.AuthenticationBasic(ADMIN, ADMIN_PASSWORD))
        assert not try_pulsar(broker, pulsar.AuthenticationBasic(PLAIN_USER, WRONG))
        assert not try_pulsar(broker, pulsar.AuthenticationToken(bad))
        said = broker.metrics() + asyncio.run(describe_broker(broker))
        said += run_doctor(broker.environment())
        assert "kafscale_authentications_total" in said
        broker.stop()
        key_line = broker.own.key.read_text().splitlines()[1]
        fleet_secret = (broker.secrets / "token-secret").read_text()
        planted = [ADMIN_PASSWORD, PLAIN_PASSWORD, WRONG, NEW, good, bad, key_line, fleet_secret]
        files = [broker.output, broker.audit_file, *broker.data.rglob("*")]
        assert [secret[:20] for secret in planted if secret in said] == []
        shown = {
            (file.name, secret[:20])
            for file in files
            if file.is_file()
            for secret in planted
            if secret.encode() in file.read_bytes()
        }
        assert shown == set()
        audited = broker.audit_file.read_text()
        assert '"authentication_failed"' in audited
        assert '"AlterUserScramCredentials"' in audited
