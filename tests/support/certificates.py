"""A certificate authority of the tests, and an issuer of tokens.

In this room: files in PEM form as every client takes them, and JSON web tokens with their keys.
"""

import datetime
import ipaddress
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

_DAY = datetime.timedelta(days=1)
_TEN_DAYS = datetime.timedelta(days=10)


class Issued(NamedTuple):
    """A certificate and its key; `both` holds the two, as Java wants them."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = self._sign(self._name, self._key.public_key(), is_authority=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(self._certificate))

    def issue(
        self, name: str, unit: str = "tests", file_name: str = "", hosts: Sequence[str] = ()
    ) -> Issued:
        """A certificate for loopback, for these host names, and for a client of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        certificate = _pem(self._sign(subject, key.public_key(), is_authority=False, hosts=hosts))
        key_pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        stem = file_name or f"{name}-{self.file.stem}"
        issued = Issued(*(self._folder / f"{stem}-{part}.pem" for part in ("cert", "key", "both")))
        issued.key.write_bytes(key_pem)
        issued.certificate.write_bytes(certificate)
        issued.both.write_bytes(key_pem + certificate)
        return issued

    def _sign(
        self, subject: x509.Name, public: Any, *, is_authority: bool, hosts: Sequence[str] = ()
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        names = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            *map(x509.DNSName, hosts),
        ]
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _TEN_DAYS)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if not is_authority:
            built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
            built = built.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return built.sign(self._key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class TokenIssuer:
    """Signs tokens, and shows its keys in a file."""

    def __init__(self, folder: Path, url: str = "https://issuer.test") -> None:
        self.url = url
        self.keys_file = folder / "jwks.json"
        self.rotate("first")

    def rotate(self, kid: str) -> None:
        """Use another key from now on; the one before is no longer shown."""
        self._kid = kid
        self._key = RSAKey.generate_key(2048, {"kid": kid})
        shown = json.dumps(KeySet([self._key]).as_dict(private=False))
        self.keys_file.write_text(shown)

    def token(self, user: str, lifetime_s: float = 3600.0, **claims: Any) -> str:
        now = time.time()
        said = {"iss": self.url, "aud": "kafscale", "sub": user, "iat": int(now)}
        said |= {"exp": int(now + lifetime_s), **claims}
        return jwt.encode({"alg": "RS256", "kid": self._kid}, said, self._key)
