"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): a client proves that it knows a password.

Here: what is stored of a password, and the broker's side of the conversation. The password never
reaches the broker, and neither it nor what is stored can be had from the messages.
Next door: where credentials are kept (engine/access/credentials.py), delegation tokens, which log
in by SCRAM, too (delegation_tokens.py).
Never here: random bytes and slow work. A caller gives the nonce, and derives keys on a thread.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from kafscale.model.errors import AuthenticationFailed

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384  # as Kafka: more would keep clients busy, which cannot refuse
_TOKEN_EXTENSION: Final = "tokenauth=true"

_FIRST: Final = re.compile(
    r"(?P<header>[ny],(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[^,]+)*))"
)
_FINAL: Final = re.compile(
    r"(?P<unsigned>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[^,]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_ESCAPE: Final = re.compile(r"=(2C|3D|.{0,2})", re.DOTALL)


class ScramMechanism(NamedTuple):
    """One of the two mechanisms."""

    name: str
    number: int  # as Kafka's requests name it
    hash_name: str

    def digest(self, data: bytes) -> bytes:
        """The mechanism's hash."""
        return hashlib.new(self.hash_name, data).digest()

    def sign(self, key: bytes, data: bytes) -> bytes:
        """The mechanism's keyed hash."""
        return hmac.digest(key, data, self.hash_name)

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """Stretch a password. This takes milliseconds: never on an event loop."""
        return hashlib.pbkdf2_hmac(self.hash_name, password, salt, iterations)


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
SCRAM_MECHANISMS: Final = {
    mechanism.name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)
}
SCRAM_BY_NUMBER: Final = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS.values()}


class ScramCredential(msgspec.Struct, frozen=True):
    """What is kept of a password: enough to check a proof, not enough to make one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Without the keys: a log line must not help to guess the password."""
        return f"ScramCredential(iterations={self.iterations})"


def credential(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """What is kept of a stretched password."""
    client_key = mechanism.sign(salted_password, b"Client Key")
    server_key = mechanism.sign(salted_password, b"Server Key")
    return ScramCredential(salt, mechanism.digest(client_key), server_key, iterations)


def credential_of_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = LEAST_ITERATIONS
) -> ScramCredential:
    """What is kept of a password. This takes milliseconds: never on an event loop."""
    stretched = mechanism.salted_password(password.encode(), salt, iterations)
    return credential(mechanism, stretched, salt, iterations)


def fits_password(mechanism: ScramMechanism, kept: ScramCredential, password: str) -> bool:
    """Whether a credential is of this password. This takes milliseconds: never on an event loop."""
    made = credential_of_password(mechanism, password, kept.salt, kept.iterations)
    return hmac.compare_digest(made.stored_key, kept.stored_key)


def decoy(mechanism: ScramMechanism, secret: bytes, user: str) -> ScramCredential:
    """A credential that no password fits, for a user who has none.

    The conversation goes on as for every user, so that it does not tell which users there are. The
    same user gets the same salt again, at every broker of the same secret.
    """
    made = mechanism.sign(secret, f"{mechanism.name}:{user}".encode())
    return ScramCredential(made[:16], made, made, LEAST_ITERATIONS)


class _Stage(Enum):
    FIRST = "first"
    FINAL = "final"
    OVER = "over"


# Looks up a user's credential; True: the name is that of a delegation token.
FindCredential = Callable[[str, bool], ScramCredential | None]


class ScramExchange:
    """The broker's side of one conversation: two messages in, two messages out."""

    def __init__(
        self, mechanism: ScramMechanism, nonce: str, find: FindCredential, decoy_secret: bytes
    ) -> None:
        """`nonce`: the broker's part of it, fresh random text without a comma."""
        self._mechanism = mechanism
        self._nonce = nonce
        self._repeated_nonce = ""  # with the client's part twice: see `_take_final`
        self._find = find
        self._decoy_secret = decoy_secret
        self._stage = _Stage.FIRST
        self._header = b""
        self._first_messages = ""
        self._credential: ScramCredential | None = None
        self._is_known = False
        self.user = ""  # who the client claims to be
        self.is_token = False  # the user is the id of a delegation token

    @property
    def is_over(self) -> bool:
        """Whether the client has proved that it knows the password."""
        return self._stage is _Stage.OVER

    def step(self, message: bytes) -> bytes:
        """Answer one message of the client. Raises AuthenticationFailed."""
        try:
            text = message.decode("utf-8")
        except UnicodeDecodeError:
            raise AuthenticationFailed("Invalid SCRAM message: not UTF-8") from None
        match self._stage:
            case _Stage.FIRST:
                return self._take_first(text).encode()
            case _Stage.FINAL:
                return self._take_final(text).encode()
        raise AuthenticationFailed("Invalid SCRAM message: the conversation is over")

    def _take_first(self, text: str) -> str:
        fields = _FIRST.fullmatch(text)
        if fields is None:
            raise AuthenticationFailed("Invalid SCRAM client first message format")
        self.user = _unescaped(fields["user"])
        if fields["authzid"] and _unescaped(fields["authzid"]) != self.user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.is_token = _TOKEN_EXTENSION in fields["extensions"].split(",")
        found_credential = self._find(self.user, self.is_token)
        self._is_known = found_credential is not None
        # The decoy is made in any case: the same work for a user who exists.
        made = decoy(self._mechanism, self._decoy_secret, self.user)
        kept = self._credential = found_credential or made
        self._header = fields["header"].encode()
        self._nonce = fields["nonce"] + self._nonce
        self._repeated_nonce = fields["nonce"] + self._nonce
        salt = base64.b64encode(kept.salt).decode()
        answer = f"r={self._nonce},s={salt},i={kept.iterations}"
        self._first_messages = f"{fields['bare']},{answer}"
        self._stage = _Stage.FINAL
        return answer

    def _take_final(self, text: str) -> str:
        assert self._credential is not None
        fields = _FINAL.fullmatch(text)
        if fields is None:
            raise AuthenticationFailed("Invalid SCRAM client final message format")
        # librdkafka before 2.6.1 puts the client's part before the whole nonce once more
        # (decision 67). The broker's fresh part is in both forms.
        said = fields["nonce"]
        is_issued = hmac.compare_digest(said, self._nonce)
        if not (is_issued or hmac.compare_digest(said, self._repeated_nonce)):
            raise AuthenticationFailed("Invalid client nonce in the final client message")
        if not hmac.compare_digest(_decoded(fields["binding"]), self._header):
            raise AuthenticationFailed("Invalid channel binding in the final client message")
        signed = f"{self._first_messages},{fields['unsigned']}".encode()
        mechanism, kept = self._mechanism, self._credential
        signature = mechanism.sign(kept.stored_key, signed)
        proof = _decoded(fields["proof"])
        is_right = len(proof) == len(signature) and self._is_known
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        if not (hmac.compare_digest(mechanism.digest(client_key), kept.stored_key) and is_right):
            raise AuthenticationFailed(
                "Authentication failed during authentication due to invalid credentials with SASL "
                f"mechanism {mechanism.name}"
            )
        self._stage = _Stage.OVER
        proof_of_ours = base64.b64encode(mechanism.sign(kept.server_key, signed)).decode()
        return f"v={proof_of_ours}"


def _unescaped(name: str) -> str:
    """The user that a message names: comma and equals sign are written as =2C and =3D."""

    def unescape(escape: re.Match[str]) -> str:
        if escape[1] not in ("2C", "3D"):
            raise AuthenticationFailed("Invalid SCRAM client first message format")
        return "," if escape[1] == "2C" else "="

    return _ESCAPE.sub(unescape, name)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("Invalid SCRAM client final message format") from None
