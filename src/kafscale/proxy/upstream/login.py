"""How the proxy proves to the upstream who it is: PLAIN and SCRAM, from the client's side.

Next door: the other side of both (access/plain.py, access/scram.py), the connection (link.py).
"""

import asyncio
import base64
import hmac
from typing import Final, NamedTuple, Protocol, TypeVar

from kafscale.access.scram import SCRAM_MECHANISMS, ScramMechanism
from kafscale.model.errors import AuthenticationFailed
from kafscale.model.security.secret import Secret
from kafscale.wire.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafscale.wire.kafka.schema import Message

M = TypeVar("M", bound=Message)

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)
_MOST_ITERATIONS: Final = 1 << 20
_HEADER: Final = "n,,"


class Secrets(NamedTuple):
    """Who the proxy is, to the upstream."""

    mechanism: str
    user: str
    password: Secret
    nonce: str = ""  # fresh for each login


class Asker(Protocol):
    """A connection to the upstream."""

    async def ask(self, request: Message, kind: type[M], version: int | None = None) -> M:
        """Send a request and give its answer."""
        ...


async def log_in(link: Asker, secrets: Secrets) -> None:
    """Prove who the proxy is. Raises AuthenticationFailed."""
    shaken = await link.ask(SaslHandshakeRequest(secrets.mechanism), SaslHandshakeResponse, 1)
    if shaken.error_code:
        raise AuthenticationFailed(
            f"the upstream offers {', '.join(shaken.mechanisms)}, not {secrets.mechanism}"
        )
    if secrets.mechanism == PLAIN:
        await _say(link, f"\0{secrets.user}\0{secrets.password.reveal()}")
        return
    await _scram(link, secrets, SCRAM_MECHANISMS[secrets.mechanism])


async def _scram(link: Asker, secrets: Secrets, mechanism: ScramMechanism) -> None:
    name = secrets.user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={secrets.nonce}"
    first = await _say(link, f"{_HEADER}{bare}")
    salt, iterations, nonce = read_first(first, secrets.nonce)
    salted = await asyncio.to_thread(
        mechanism.salted_password, secrets.password.reveal().encode(), salt, iterations
    )
    unsigned = f"c={_base64(_HEADER.encode())},r={nonce}"
    signed = f"{bare},{first},{unsigned}".encode()
    client_key = mechanism.sign(salted, b"Client Key")
    signature = mechanism.sign(mechanism.digest(client_key), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = await _say(link, f"{unsigned},p={_base64(proof)}")
    expected = _base64(mechanism.sign(mechanism.sign(salted, b"Server Key"), signed))
    if not hmac.compare_digest(last, f"v={expected}"):
        raise AuthenticationFailed("the upstream does not know the password either")


def read_first(text: str, own_nonce: str) -> tuple[bytes, int, str]:
    """Salt, iterations and the whole nonce of the upstream's first message."""
    fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    nonce, salt, iterations = fields.get("r", ""), fields.get("s", ""), fields.get("i", "")
    is_sound = nonce.startswith(own_nonce) and len(nonce) > len(own_nonce) and iterations.isdigit()
    if not is_sound or not 0 < int(iterations) <= _MOST_ITERATIONS:
        raise AuthenticationFailed("the upstream's first SCRAM message is not sound")
    try:
        return base64.b64decode(salt, validate=True), int(iterations), nonce
    except ValueError:
        raise AuthenticationFailed("the upstream's first SCRAM message is not sound") from None


async def _say(link: Asker, text: str) -> str:
    answer = await link.ask(SaslAuthenticateRequest(text.encode()), SaslAuthenticateResponse, 1)
    if answer.error_code:
        raise AuthenticationFailed(f"the upstream refuses the login: {answer.error_message}")
    try:
        return bytes(answer.auth_bytes).decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("the upstream's SCRAM message is not UTF-8") from None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
