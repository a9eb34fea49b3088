"""The secrets of logins are planted, used and looked for: passwords, tokens, certificate keys."""

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support import secured
from tests.support.secured import ADMIN, ADMIN_PASSWORD, PLAIN_PASSWORD, PLAIN_USER, SecuredProcess

pytestmark = pytest.mark.slow

WRONG = "planted-wrong-password"
NEW = "planted-scram-password"


def test_a_broker_that_clients_log_in_to_shows_no_secret(tmp_path: Path) -> None:
    env = {
        "KAFSCALE_LOG_LEVEL": "debug",
        "KAFSCALE_LOG_FORMAT": "text",
        "KAFSCALE_AUDIT_FILE": str(tmp_path / "audit.log"),
    }
    with SecuredProcess(tmp_path / "broker", env) as broker:
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
            if secured.by_confluent(broker.at("SASL_SSL"), "t", settings)
        }
        assert failed == {"wrong", "no user", "wrong token"}
        broker.stop()
        key_line = broker.own.key.read_text().splitlines()[1]
        fleet_secret = (broker.secrets / "token-secret").read_text()
        planted = [ADMIN_PASSWORD, PLAIN_PASSWORD, WRONG, NEW, good, bad, key_line, fleet_secret]
        files = [broker.output, tmp_path / "audit.log", *broker.data.rglob("*")]
        shown = {
            (file.name, secret[:20])
            for file in files
            if file.is_file()
            for secret in planted
            if secret.encode() in file.read_bytes()
        }
        assert shown == set()
        audited = (tmp_path / "audit.log").read_text()
        assert '"authentication_failed"' in audited
        assert '"AlterUserScramCredentials"' in audited
