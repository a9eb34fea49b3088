"""How clients of this door prove who they are: by a password, or by a token.

Here: the two methods, and what a client gets that is refused. A client sends its proof with
CONNECT. When that expires it is asked for another one; a client that has none is sent away.
Next door: users, keys and tokens (engine/access/authentication.py), certificates
(broker/doors/door_security.py), the order of commands (session.py).
"""

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Final, NamedTuple

from kafscale.engine.access.authentication import Authentication, ClientIdentity
from kafscale.gateways.pulsar.channel import Channel
from kafscale.model.clock import Clock
from kafscale.model.errors import AuthenticationFailed
from kafscale.model.security.audit import ALLOWED
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.messages.commands import (
    NO_REQUEST,
    AuthChallenge,
    AuthData,
    AuthResponse,
    Command,
    Connect,
    Error,
    GetSchema,
    GetSchemaResponse,
    Lookup,
    LookupResponse,
    PartitionedMetadata,
    PartitionedMetadataResponse,
)

BASIC, TOKEN = "basic", "token"
MOST_FRAME_BYTES: Final = 128 << 10  # of a client that is not authenticated
_ANSWER_WITHIN_S: Final = 30.0  # with a new proof
_FAILED: Final = 1
_LOOKUP_FAILED: Final = 2


class PulsarLoginRules(NamedTuple):
    """What this door asks of its clients."""

    authentication: Authentication
    methods: tuple[str, ...]
    timeout_s: float  # for the first proof
    failure_delay_s: float
    session_s: float | None  # None: as long as the connection


async def identify(rules: PulsarLoginRules, method: str, proof: bytes) -> ClientIdentity:
    """Who a client is. Raises AuthenticationFailed."""
    if method not in rules.methods:
        raise AuthenticationFailed(
            f"Authentication failed: the method is one of {', '.join(rules.methods)}, "
            f"not {method[:20] or 'none'!r}"
        )
    try:
        text = proof.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("Authentication failed: not UTF-8") from None
    if method == TOKEN:
        return await rules.authentication.by_token(text)
    user, colon, password = text.partition(":")
    if not (user and colon and password):
        raise AuthenticationFailed("Authentication failed: expected user:password")
    return await rules.authentication.by_password(user, password)


class PulsarLogin:
    """The authentication of one connection."""

    def __init__(
        self,
        rules: PulsarLoginRules,
        clock: Clock,
        channel: Channel,
        report: Callable[[str, str, str], None],
    ) -> None:
        """`report` takes method, outcome, and who the client claims to be."""
        self._rules = rules
        self._clock = clock
        self._channel = channel
        self._report = report
        self._method = ""
        self._can_refresh = False
        self._identity: ClientIdentity | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.refusal = ""  # why the client is not let in
        channel.connection.require_authentication(rules.timeout_s, MOST_FRAME_BYTES)

    async def begin(self, command: Connect) -> bool:
        """Take the client's first proof; False if it is refused."""
        self._method = command.auth_method_name or ""
        flags = command.feature_flags
        self._can_refresh = flags is not None and bool(flags.supports_auth_refresh)
        return await self._take(self._method, command.auth_data or b"")

    async def _take(self, method: str, proof: bytes) -> bool:
        known = method if method in self._rules.methods else "other"
        try:
            identity = await identify(self._rules, method, proof)
            if self._identity is not None and identity.principal != self._identity.principal:
                raise AuthenticationFailed("Authentication failed: the principal has changed")
        except AuthenticationFailed as problem:
            self._report(known, "failed", _claimed(method, proof))
            self.refusal = str(problem)
            await asyncio.sleep(self._rules.failure_delay_s)
            return False
        if self._channel.is_closed:
            return True
        self._report(known, ALLOWED, identity.principal.name)
        self._identity = identity
        self._channel.connection.authenticated(identity.principal)
        self._wait_for_end(identity)
        return True

    def _wait_for_end(self, identity: ClientIdentity) -> None:
        """Ask for another proof when this one expires."""
        self.end()
        lifetimes = [] if self._rules.session_s is None else [self._rules.session_s]
        if identity.expires_ms is not None:
            lifetimes.append((identity.expires_ms - self._clock.now_ms()) / 1000)
        if lifetimes:
            self._after(max(min(lifetimes), 0.0), self._challenge)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, act)

    def _challenge(self) -> None:
        if not self._can_refresh:
            self._give_up()
            return
        asked = AuthData(auth_method_name=self._method, auth_data=b"")
        self._channel.send(AuthChallenge(challenge=asked))
        self._after(_ANSWER_WITHIN_S, self._give_up)

    def _give_up(self) -> None:
        self._channel.connection.abort("session_expired")

    def answer(self, command: AuthResponse, held_bytes: int) -> None:
        """AUTH_RESPONSE: the client's next proof."""

        async def take() -> None:
            given = command.response or AuthData()
            if not await self._take(given.auth_method_name or "", given.auth_data or b""):
                self._give_up()

        self._channel.later(take(), "auth response", held_bytes)

    def end(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def refuse(self, command: Command) -> None:
        """Answer a command of a client that is not let in.

        The C++ client tells its application nothing of a refused CONNECT. It is let in that far,
        and hears the reason with its first question.
        """
        code, words = ServerError.AUTHENTICATION_ERROR, self.refusal
        request_id = getattr(command, "request_id", None)
        answer: Command | None = None
        if isinstance(command, PartitionedMetadata):
            answer = PartitionedMetadataResponse(
                request_id=command.request_id, response=_FAILED, error=code, message=words
            )
        elif isinstance(command, Lookup):
            answer = LookupResponse(
                request_id=command.request_id, response=_LOOKUP_FAILED, error=code, message=words
            )
        elif isinstance(command, GetSchema):
            answer = GetSchemaResponse(
                request_id=command.request_id, error_code=code, error_message=words
            )
        elif request_id is not None:
            answer = Error(request_id=request_id, error=code, message=words)
        if answer is not None:
            self._channel.send(answer)

    def send_away(self) -> None:
        """End the connection of a client that is refused, with the reason."""
        code = ServerError.AUTHENTICATION_ERROR
        self._channel.send(Error(request_id=NO_REQUEST, error=code, message=self.refusal))
        self._channel.connection.finish()


def _claimed(method: str, proof: bytes) -> str:
    """Who a client says it is; a token says so only to those who can read it."""
    if method != BASIC:
        return ""
    return proof.partition(b":")[0][:200].decode(errors="replace")


async def identify_by_header(rules: PulsarLoginRules, header: str) -> ClientIdentity:
    """Who a client of the admin API is, by its header. Raises AuthenticationFailed."""
    scheme, _, given = header.partition(" ")
    if scheme.lower() == "bearer":
        return await identify(rules, TOKEN, given.strip().encode())
    if scheme.lower() == "basic":
        try:
            return await identify(rules, BASIC, base64.b64decode(given.strip(), validate=True))
        except binascii.Error:
            raise AuthenticationFailed("Authentication failed: not base64") from None
    return await identify(rules, "", b"")
