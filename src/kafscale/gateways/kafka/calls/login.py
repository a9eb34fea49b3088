"""How far a connection is with its authentication: what it may send, and what came of it.

Here: the states of a connection to a listener with SASL. Until it is authenticated, few requests
are served, and it may send only little.

    HANDSHAKE    the client asks for versions and names a mechanism
    MESSAGES     SaslAuthenticate carries the mechanism's messages
    RAW          after SaslHandshake 0: frames without a header carry them
    DONE         authenticated; where sessions end, another SaslHandshake begins the next one
    FAILED       the last answer goes out, and the connection ends

Next door: the conversation itself (engine/access/authentication.py), the requests
(apis/sasl_handshake.py, apis/sasl_authenticate.py), which frames begin (kafka/session.py).
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from kafscale.engine.access.authentication import ClientIdentity, Exchange
from kafscale.model.clock import Clock
from kafscale.model.errors import AuthenticationFailed

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
LOGIN_APIS: Final = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})

MOST_FRAME_BYTES: Final = 128 << 10  # of a client that is not authenticated
_MOST_BYTES: Final = 256 << 10  # of all its frames together
_FRAME_COST: Final = 8 << 10  # so that very many small frames are too much as well
_SHORTEST_SESSION_S: Final = 1.0  # a client that logs in more often costs too much


class LoginState(Enum):
    """How far the authentication of a connection is."""

    HANDSHAKE = "handshake"
    MESSAGES = "messages"
    RAW = "raw"
    DONE = "done"
    FAILED = "failed"


# The requests that are served in each state; None: all that there are.
SERVED: Final[dict[LoginState, frozenset[int] | None]] = {
    LoginState.HANDSHAKE: frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE}),
    LoginState.MESSAGES: LOGIN_APIS,
    LoginState.RAW: frozenset(),
    LoginState.DONE: None,
    LoginState.FAILED: frozenset(),
}


class Mechanisms(Protocol):
    """The ways in which clients prove who they are."""

    def begin(self, mechanism: str) -> Exchange:
        """A conversation by a mechanism that the listener offers."""
        ...


class LoginRules(NamedTuple):
    """What a listener with SASL asks of its clients."""

    authentication: Mechanisms
    mechanisms: tuple[str, ...]
    timeout_s: float  # for the whole authentication
    failure_delay_s: float
    session_s: float | None  # None: as long as the connection


# Told mechanism and outcome of every login, and who the client claims to be.
LoginReport = Callable[[str, str, str], None]
SUCCEEDED: Final = "ok"  # every other outcome is a failure


class LoginAnswer(NamedTuple):
    """What a client is answered."""

    message: bytes
    lifetime_ms: int = 0  # of the session; 0: as long as the connection
    is_refusal: bool = False  # the login has failed; the client may still say that it knows


class IllegalState(Exception):
    """The request does not fit the state; the text says why."""


class Login:
    """The authentication of one connection."""

    def __init__(self, rules: LoginRules, clock: Clock, report: LoginReport) -> None:
        self.rules = rules
        self._clock = clock
        self._report = report
        self.state = LoginState.HANDSHAKE
        self.identity: ClientIdentity | None = None
        self.expires_s = math.inf  # of the session, by the clock's elapsed seconds
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._began_s = -math.inf
        self._left_bytes = _MOST_BYTES
        self._is_told = False  # that the login has failed

    @property
    def mechanisms(self) -> Sequence[str]:
        """What the listener offers."""
        return self.rules.mechanisms

    @property
    def is_by_token(self) -> bool:
        """Whether the client has logged in with a delegation token."""
        return self.identity is not None and self.identity.is_by_token

    def takes(self, frame_bytes: int) -> bool:
        """Count a frame of a client that is not authenticated; False if it sends too much."""
        self._left_bytes -= frame_bytes + _FRAME_COST
        return self._left_bytes >= 0

    def handshake(self, mechanism: str, version: int) -> bool:
        """Begin a conversation; False if the mechanism is not offered. Raises IllegalState."""
        now_s = self._clock.elapsed_s()
        if self.state is LoginState.DONE:
            if self.expires_s == math.inf:
                raise IllegalState("the client is authenticated, and its session does not end")
            if now_s - self._began_s < _SHORTEST_SESSION_S:
                self._end(mechanism, "too_early")
                raise IllegalState("the client has authenticated a moment ago")
        elif self.state is not LoginState.HANDSHAKE:
            self._end(mechanism, "illegal_state")
            raise IllegalState("the client has named a mechanism already")
        if mechanism not in self.rules.mechanisms:
            self._end("", "unsupported_mechanism")
            return False
        if self.identity is not None and mechanism != self._mechanism:
            self._end(mechanism, "changed_mechanism")
            raise IllegalState("a client that is authenticated cannot change its mechanism")
        if self.identity is not None:
            self._left_bytes = _MOST_BYTES
        self._mechanism = mechanism
        self._exchange = self.rules.authentication.begin(mechanism)
        self.state = LoginState.MESSAGES if version else LoginState.RAW
        return True

    async def step(self, message: bytes) -> LoginAnswer:
        """Answer one message of the conversation. Raises AuthenticationFailed, IllegalState."""
        if self.state not in (LoginState.MESSAGES, LoginState.RAW) or self._exchange is None:
            if self.state is not LoginState.DONE:
                self._end("", "illegal_state")
            raise IllegalState("no mechanism has been named")
        exchange = self._exchange
        try:
            reply = await exchange.step(message)
            if reply.identity is not None and self.identity is not None:
                _check_unchanged(self.identity, reply.identity)
        except AuthenticationFailed:
            self._end(self._mechanism, "failed", exchange.claimed)
            raise
        if reply.identity is None:
            if reply.is_refusal:  # told now: a client can leave without another word
                self._tell_failure(self._mechanism, "failed", exchange.claimed)
            return LoginAnswer(reply.message, is_refusal=reply.is_refusal)
        self._exchange = None
        return LoginAnswer(reply.message, self._begin_session(reply.identity))

    async def step_raw(self, message: bytes) -> Sequence[bytes]:
        """Answer a frame that is one message of the conversation, with such a frame.

        A client that fails gets none: in this form there is no place for an error.
        """
        try:
            answer = await self.step(message)
        except (AuthenticationFailed, IllegalState):
            await asyncio.sleep(self.rules.failure_delay_s)
            return ()
        if answer.is_refusal:
            await asyncio.sleep(self.rules.failure_delay_s)
        return len(answer.message).to_bytes(4, "big"), answer.message

    def _begin_session(self, identity: ClientIdentity) -> int:
        """The client has proved who it is; gives the milliseconds until it must do so again."""
        self.identity = identity
        self.state = LoginState.DONE
        self._began_s = self._clock.elapsed_s()
        lifetime_s = math.inf if self.rules.session_s is None else self.rules.session_s
        if identity.expires_ms is not None:
            left_s = (identity.expires_ms - self._clock.now_ms()) / 1000
            lifetime_s = min(lifetime_s, max(left_s, 0.001))
        self.expires_s = self._began_s + lifetime_s
        self._report(self._mechanism, SUCCEEDED, identity.principal.name)
        return 0 if lifetime_s == math.inf else max(1, int(lifetime_s * 1000))

    def _end(self, mechanism: str, outcome: str, claimed: str = "") -> None:
        self.state = LoginState.FAILED
        self._exchange = None
        self._tell_failure(mechanism, outcome, claimed)

    def _tell_failure(self, mechanism: str, outcome: str, claimed: str) -> None:
        """Report that a login has failed, once."""
        known = mechanism if mechanism in self.rules.mechanisms else "other"
        if not self._is_told:
            self._report(known, outcome, claimed)
        self._is_told = True


def _check_unchanged(before: ClientIdentity, after: ClientIdentity) -> None:
    if before.principal != after.principal:
        raise AuthenticationFailed(
            f"Cannot change principals during re-authentication from {before.principal} to "
            f"{after.principal}"
        )
