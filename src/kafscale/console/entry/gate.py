"""The gate: whose login is right, how often one may try, and which sessions there are.

Here: credentials from two variables and from nowhere else, the throttle, sessions. Time and chance
are arguments. Next door: what a request must show besides a session (wall.py).
"""

import hashlib
import hmac
from collections import OrderedDict, deque
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafscale.model.clock import Clock, Dice

USERNAME: Final = "KAFSCALE_UI_USERNAME"
PASSWORD: Final = "KAFSCALE_UI_PASSWORD"
SESSION_S: Final = 12 * 3600.0
IDLE_S: Final = 30 * 60.0
MOST_SESSIONS: Final = 100
FREE_TRIES: Final = 5
LONGEST_PAUSE_S: Final = 60.0
MANY_FAILURES: Final = 30  # in a minute, from all addresses
_MINUTE_S: Final = 60.0
_FORGET_S: Final = 3600.0
_MOST_ADDRESSES: Final = 10_000
_TOKEN_BYTES: Final = 32


class LoginCredentials:
    """The one user, as two digests under a key of this process; None: the console is disabled."""

    def __init__(self, username: str, password: str, dice: Dice) -> None:
        self.username = username
        self._key = dice.token(32)
        self._user, self._password = self._digest(username), self._digest(password)

    def fit(self, username: str, password: str) -> bool:
        """Whether both are right. A wrong user takes as long as a wrong password."""
        user = hmac.compare_digest(self._digest(username), self._user)
        word = hmac.compare_digest(self._digest(password), self._password)
        return user & word

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")


def take_credentials(environment: MutableMapping[str, str], dice: Dice) -> LoginCredentials | None:
    """Read both variables and remove them: no child of this process sees them.

    None unless both are set; one that holds nothing but blanks counts as not set.
    """
    username, password = environment.pop(USERNAME, ""), environment.pop(PASSWORD, "")
    if not username.strip() or not password.strip():
        return None
    return LoginCredentials(username, password, dice)


@dataclass(slots=True)
class _Tries:
    failures: int
    last_s: float


class Throttle:
    """How long an address must wait before it may try again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tries: OrderedDict[str, _Tries] = OrderedDict()  # the latest last
        self._failures: deque[float] = deque(maxlen=MANY_FAILURES)

    def wait_s(self, address: str) -> float:
        """Seconds until this address may try; 0: now."""
        now_s = self._clock.elapsed_s()
        tries = self._tries.get(address)
        if tries is None or now_s - tries.last_s > _FORGET_S:
            return 0.0
        over = tries.failures - FREE_TRIES
        pause_s = min(2.0 ** min(over, 16), LONGEST_PAUSE_S) if over >= 0 else 0.0
        return max(0.0, tries.last_s + pause_s - now_s)

    def delay_s(self) -> float:
        """How long every attempt is held up while many fail, from whatever address."""
        now_s = self._clock.elapsed_s()
        are_many = len(self._failures) == MANY_FAILURES
        return 1.0 if are_many and now_s - self._failures[0] < _MINUTE_S else 0.0

    def failed(self, address: str) -> None:
        """Count a wrong login."""
        now_s = self._clock.elapsed_s()
        self._failures.append(now_s)
        tries = self._tries.pop(address, None)
        if tries is None or now_s - tries.last_s > _FORGET_S:
            tries = _Tries(0, now_s)
        tries.failures, tries.last_s = tries.failures + 1, now_s
        self._tries[address] = tries
        while len(self._tries) > _MOST_ADDRESSES:
            self._tries.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Forget what an address got wrong."""
        self._tries.pop(address, None)


class LoggedIn(NamedTuple):
    """A session as pages see it."""

    key: bytes  # the token's digest
    username: str


@dataclass(slots=True)
class _Session:
    username: str
    began_s: float
    seen_s: float


class Sessions:
    """Who is logged in. In memory only: the end of the process ends all sessions."""

    def __init__(self, clock: Clock, dice: Dice) -> None:
        self._clock = clock
        self._dice = dice
        self._open: OrderedDict[bytes, _Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, username: str) -> str:
        """Open a session; gives the token, which is kept as a digest only."""
        self._sweep()
        while len(self._open) >= MOST_SESSIONS:
            self._open.popitem(last=False)
        token = self._dice.token(_TOKEN_BYTES).hex()
        now_s = self._clock.elapsed_s()
        self._open[_key(token)] = _Session(username, now_s, now_s)
        return token

    def find(self, token: str) -> LoggedIn | None:
        """The session of a token, which is thereby in use."""
        key = _key(token)
        session = self._open.get(key)
        if session is None or self._is_over(session):
            self._open.pop(key, None)
            return None
        session.seen_s = self._clock.elapsed_s()
        return LoggedIn(key, session.username)

    def end(self, key: bytes) -> None:
        """End a session."""
        self._open.pop(key, None)

    def _is_over(self, session: _Session) -> bool:
        now_s = self._clock.elapsed_s()
        return now_s - session.began_s > SESSION_S or now_s - session.seen_s > IDLE_S

    def _sweep(self) -> None:
        for key in [key for key, session in self._open.items() if self._is_over(session)]:
            del self._open[key]


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
