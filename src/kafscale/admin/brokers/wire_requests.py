"""Requests for which the client library has no verb, in Kafka's own words.

Here: one connection for each question, encrypted and logged in as the client's settings say, in
librdkafka's words. Next door: who asks so (transactions.py, admin/groups, admin/access), the
library's own connections (client.py).
Never here: tokens and Kerberos; they are refused with a sentence.
"""

import base64
import contextlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

from confluent_kafka.admin import AdminClient

from kafscale.access.scram import MOST_ITERATIONS, SCRAM_MECHANISMS, ScramMechanism
from kafscale.admin.brokers.client import ANSWER_WITHIN_S, wait
from kafscale.admin.brokers.page_trust import trust_of_client
from kafscale.admin.errors import AdminError
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafscale.wire.kafka.schema import M, Message

BrokerAddress = tuple[str, int]
_LENGTH: Final = struct.Struct(">i")
_LARGEST_ANSWER: Final = 100 << 20
_NONCE_BYTES: Final = 24


def ask_broker(
    address: BrokerAddress,
    settings: Mapping[str, Any],
    request: Message,
    kind: type[M],
    version: int,
) -> M:
    """Put one question to a broker and give its answer. Raises AdminError.

    `settings`: those of the client, of which security.protocol, ssl.* and sasl.* count.
    """
    place = f"{address[0]}:{address[1]}"
    try:
        with _connected(address, settings) as wire:
            if "SASL" in _protocol(settings):
                _log_in(wire, settings)
            return wire.ask(request, kind, version)
    except (OSError, MalformedMessage) as bad:
        reason = (bad.strerror if isinstance(bad, OSError) else None) or str(bad)
        raise AdminError(f"the broker at {place}: {reason}") from bad


def list_addresses(admin: AdminClient) -> dict[int, BrokerAddress]:
    """Where each broker of the fleet listens, by its number."""
    described = wait("", admin.describe_cluster(request_timeout=ANSWER_WITHIN_S))
    return {node.id: (node.host, node.port) for node in described.nodes}


def error_name(code: int) -> str:
    """What Kafka calls an error."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


class _Wire:
    """Questions and answers over one connection."""

    def __init__(self, connection: socket.socket, stream: BinaryIO) -> None:
        self._connection = connection
        self._stream = stream
        self._asked = 0

    def ask(self, request: Message, kind: type[M], version: int) -> M:
        """Send a request and read its answer."""
        self._asked += 1
        sent = b"".join(frame.request_frame(self._asked, request, version, "kafscale-cli"))
        self._connection.sendall(sent)
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if not 0 <= size <= _LARGEST_ANSWER:
            raise ConnectionError("it is no Kafka broker")
        raw = memoryview(bytearray(self._exactly(size)))
        return frame.read_response(raw, kind, version)[1]

    def _exactly(self, size: int) -> bytes:
        received = self._stream.read(size)
        if len(received) < size:
            raise ConnectionError("it closed the connection without an answer")
        return received


@contextlib.contextmanager
def _connected(address: BrokerAddress, settings: Mapping[str, Any]) -> Iterator[_Wire]:
    with contextlib.ExitStack() as stack:
        connection: socket.socket = stack.enter_context(
            socket.create_connection(address, timeout=ANSWER_WITHIN_S)
        )
        if _protocol(settings).endswith("SSL"):
            connection = stack.enter_context(
                _context(settings).wrap_socket(connection, server_hostname=address[0])
            )
        yield _Wire(connection, stack.enter_context(connection.makefile("rb")))


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    context = trust_of_client(settings, ["https://"])
    assert context is not None, "there is an encrypted page"
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _protocol(settings: Mapping[str, Any]) -> str:
    return str(settings.get("security.protocol", "")).upper()


# -- logging in ----------------------------------------------------------------------------------


def _log_in(wire: _Wire, settings: Mapping[str, Any]) -> None:
    name = str(settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "").upper()
    user, password = str(settings.get("sasl.username")), str(settings.get("sasl.password"))
    if name not in SCRAM_MECHANISMS and name != "PLAIN":
        raise AdminError(f"this request cannot log in by {name or 'no mechanism'}: use SCRAM")
    greeting = wire.ask(SaslHandshakeRequest(name), SaslHandshakeResponse, 1)
    if greeting.error_code:
        raise AdminError(f"the broker does not take {name}, but {', '.join(greeting.mechanisms)}")
    if name == "PLAIN":
        _say(wire, f"\0{user}\0{password}".encode())
    else:
        _prove(wire, SCRAM_MECHANISMS[name], user, password)


def _say(wire: _Wire, message: bytes) -> bytes:
    answer = wire.ask(SaslAuthenticateRequest(message), SaslAuthenticateResponse, 1)
    if answer.error_code:
        raise AdminError(answer.error_message or "the login was refused", answer.error_code)
    return answer.auth_bytes


def _prove(wire: _Wire, mechanism: ScramMechanism, user: str, password: str) -> None:
    """The client's side of SCRAM (RFC 5802); the broker proves itself, too."""
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    bare = f"n={escaped},r={nonce}"
    first = _say(wire, f"n,,{bare}".encode()).decode("utf-8", "replace")
    said = dict(part.split("=", 1) for part in first.split(",") if "=" in part)
    rounds = said.get("i", "")
    is_fair = rounds.isdecimal() and 0 < int(rounds) <= MOST_ITERATIONS
    if not is_fair or not said.get("r", "").startswith(nonce):
        raise AdminError("the broker's side of the login makes no sense")
    salt = base64.b64decode(said.get("s", ""))
    stretched = mechanism.salted_password(password.encode(), salt, int(rounds))
    client_key = mechanism.sign(stretched, b"Client Key")
    unsigned = f"c=biws,r={said['r']}"
    whole = f"{bare},{first},{unsigned}".encode()
    signature = mechanism.sign(mechanism.digest(client_key), whole)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = _say(wire, f"{unsigned},p={base64.b64encode(proof).decode()}".encode())
    expected = mechanism.sign(mechanism.sign(stretched, b"Server Key"), whole)
    if not hmac.compare_digest(last, b"v=" + base64.b64encode(expected)):
        raise AdminError("the broker does not know the password: it is another one than it says")
