"""The brokers that librdkafka's tests run against, and what the tests are told about them.

A test that needs a secured broker names its kind: `acls` (no login, but access control lists),
`mtls` (clients show certificates), `scram` (SASL over TLS, logins end after ten seconds), `oidc`
(tokens, fetched from an issuer of the tests).
Next door: cases and their kinds (cases.py), running them (runner.py).
"""

import ssl
import tempfile
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.support.broker import KafscaleProcess
from tests.support.certificates import Issued
from tests.support.secured import ADMIN, ADMIN_PASSWORD, SecuredProcess
from tests.support.token_endpoint import TokenEndpoint

_KEY_PASSWORD = "of-the-key"
_SESSION_S = 10
_ACLS = ("authorization.enabled=true", "authorization.allowEveryoneIfNoAclFound=true")


@dataclass
class Target:
    """A broker that runs, as a test must be told of it."""

    broker: KafscaleProcess
    bootstrap: str
    conf: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    endpoint: TokenEndpoint | None = None

    def metrics(self) -> bytes:
        """The broker's page of metrics."""
        context, scheme = None, "http"
        if isinstance(self.broker, SecuredProcess):
            context = ssl.create_default_context(cafile=str(self.broker.authority.file))
            scheme = "https"
        url = f"{scheme}://localhost:{self.broker.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=30, context=context) as answer:
            page: bytes = answer.read()
        return page

    def close(self) -> None:
        self.broker.close()
        if self.endpoint is not None:
            self.endpoint.close()


def start(scenario: str, kind: str) -> Target:
    """Start a broker of a kind."""
    env = {
        "KAFSCALE_AUTO_CREATE_PARTITIONS": "4",
        "KAFSCALE_AUTO_CREATE_TOPICS": "false" if scenario == "noautocreate" else "true",
    }
    if kind in ("", "acls"):
        open_to_all = KafscaleProcess(env=env, settings=_ACLS if kind else ()).start()
        return Target(open_to_all, open_to_all.bootstrap)
    broker = SecuredProcess(Path(tempfile.mkdtemp(prefix="kafscale-")), env)
    broker.settings = (f"sasl.sessionLifetime={_SESSION_S}s",)
    broker.start()
    target = Target(broker, broker.at("MUTUAL" if kind == "mtls" else "SASL_SSL"))
    _encrypt(target, broker)
    if kind == "scram":
        target.conf |= {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": ADMIN,
            "sasl.password": ADMIN_PASSWORD,
        }
    elif kind == "oidc":
        _give_tokens(target, broker)
    return target


def _encrypt(target: Target, broker: SecuredProcess) -> None:
    own = broker.authority.issue("alice")
    target.conf |= {
        "security.protocol": "ssl",
        "ssl.ca.location": str(broker.authority.file),
        "ssl.certificate.location": str(own.certificate),
        "ssl.key.location": str(own.key),
        "ssl.key.password": _KEY_PASSWORD,
    }
    target.env |= {
        "SSL_password": _KEY_PASSWORD,
        "SSL_all_cas_pem": str(broker.authority.file),
        "SSL_pub_pem": str(own.certificate),
        "SSL_priv_pem": str(own.key),
        **_other_forms(broker.secrets, own, broker.authority.file),
    }


def _other_forms(folder: Path, own: Issued, authority: Path) -> dict[str, str]:
    """The same certificates and key as DER and as PKCS 12."""
    key = serialization.load_pem_private_key(own.key.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(own.certificate.read_bytes())
    signer = x509.load_pem_x509_certificate(authority.read_bytes())
    der = serialization.Encoding.DER
    pkcs8, open_key = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    hidden = serialization.BestAvailableEncryption(_KEY_PASSWORD.encode())
    written = {
        "SSL_pub_der": certificate.public_bytes(der),
        "SSL_ca_der": signer.public_bytes(der),
        "SSL_priv_der": key.private_bytes(der, pkcs8, open_key),
        "SSL_pkcs": pkcs12.serialize_key_and_certificates(
            b"alice",
            key,  # type: ignore[arg-type]
            certificate,
            [signer],
            hidden,
        ),
    }
    for name, data in written.items():
        (folder / name).write_bytes(data)
    return {name: str(folder / name) for name in written}


def _give_tokens(target: Target, broker: SecuredProcess) -> None:
    target.endpoint = endpoint = TokenEndpoint(broker.issuer, "olga")
    endpoint.__enter__()
    target.conf |= {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "a-client",
        "sasl.oauthbearer.client.secret": "its-secret",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url(),
    }
    target.env |= {
        "VALID_OIDC_URL": endpoint.url(),
        "INVALID_OIDC_URL": endpoint.url("invalid"),
        "EXPIRED_TOKEN_OIDC_URL": endpoint.url("expired"),
    }
