"""Every secret that can be changed while a broker runs is changed; the broker is not restarted.

The table "Changing every secret" of docs/operating/security.md promises these.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509

from tests.e2e.conftest import AGAINST, watched
from tests.support import secured
from tests.support.certificates import Authority
from tests.support.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    PLAIN_USER,
    TOPIC,
    SecuredProcess,
    Settings,
)
from tests.support.secured_clients import by_confluent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="the settings are Kafscale's"),
]
PATIENCE_S = 60.0
CERTIFIED = ("SSL", "SASL_SSL")  # listeners that show a certificate and ask for none


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredProcess]:
    process = SecuredProcess(tmp_path)
    with watched(process):
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(PATIENCE_S)
        yield process


def serials(broker: SecuredProcess) -> set[int]:
    """Of the certificates that doors show to clients that name no host."""
    ports = [broker.metrics_port, *(broker.ports[name] for name in CERTIFIED)]
    return {serial(port) for port in ports}


def serial(port: int) -> int:
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        unverified.wrap_socket(plain) as encrypted,
    ):
        shown = encrypted.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def gets_in(broker: SecuredProcess, listener: str, settings: Settings) -> bool:
    return by_confluent(broker.at(listener), "round-trip", TOPIC, settings) == ""


def test_all_doors_show_a_new_certificate_without_a_restart(broker: SecuredProcess) -> None:
    before = serials(broker)
    assert len(before) == 1
    broker.authority.issue("broker", file_name="broker")
    wait_until("a new certificate", lambda: before.isdisjoint(serials(broker)))
    assert len(serials(broker)) == 1
    assert gets_in(broker, "SSL", secured.with_tls(broker))


def test_an_authority_of_clients_comes_and_goes_without_a_restart(
    broker: SecuredProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "second"
    folder.mkdir()
    old, new = broker.authority.file.read_bytes(), Authority(folder, "second")
    of_old = secured.with_certificate(broker, broker.authority, "alice")
    of_new = secured.with_certificate(broker, new, "alice")
    # Clients go on trusting the broker's certificate, which the first authority has signed.
    trusted = folder / "trusted-by-clients.pem"
    trusted.write_bytes(old)
    of_old["ssl.ca.location"] = of_new["ssl.ca.location"] = str(trusted)
    assert gets_in(broker, "MUTUAL", of_old)
    assert not gets_in(broker, "MUTUAL", of_new)
    broker.authority.file.write_bytes(old + new.file.read_bytes())
    wait_until("a second authority", lambda: gets_in(broker, "MUTUAL", of_new))
    assert gets_in(broker, "MUTUAL", of_old)
    broker.authority.file.write_bytes(new.file.read_bytes())
    wait_until("an authority that is gone", lambda: not gets_in(broker, "MUTUAL", of_old))
    assert gets_in(broker, "MUTUAL", of_new)


def test_passwords_and_keys_are_changed_without_a_restart(broker: SecuredProcess) -> None:
    def plain(password: str) -> bool:
        login = secured.with_password(broker, "PLAIN", PLAIN_USER, password)
        return gets_in(broker, "SASL_SSL", login)

    def scram(password: str) -> bool:
        login = secured.with_password(broker, "SCRAM-SHA-256", ADMIN, password)
        return gets_in(broker, "SASL_SSL", login)

    def token(shown: str) -> bool:
        return gets_in(broker, "SASL_SSL", secured.with_token(broker, shown))

    old_token = broker.issuer.token("olga")
    assert token(old_token)
    assert scram(ADMIN_PASSWORD)
    broker.users_file.write_text(f"{PLAIN_USER}=of-today\n")
    wait_until("a new password of PLAIN", lambda: plain("of-today"))
    assert not plain(secured.PLAIN_PASSWORD)
    broker.issuer.rotate("second")
    wait_until("a new key of the issuer", lambda: token(broker.issuer.token("olga")))
    assert not token(old_token)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    strong = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wish = UserScramCredentialUpsertion(ADMIN, strong, b"of-the-admin-today")
    admin.alter_user_scram_credentials([wish])[ADMIN].result(PATIENCE_S)
    assert scram("of-the-admin-today")
    assert not scram(ADMIN_PASSWORD)
