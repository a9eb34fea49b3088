"""The doorway: who a request comes from, and logging in.

Here: wall and gate put together for one request. Next door: the rules (wall.py), credentials,
throttle and sessions (gate.py).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.entry.gate import (
    PASSWORD,
    SESSION_S,
    USERNAME,
    LoggedIn,
    LoginCredentials,
    Sessions,
    Throttle,
)
from kafscale.console.entry.wall import COOKIE, Wall
from kafscale.model.clock import Clock, Dice

COOKIE_MAX_AGE_S: Final = int(SESSION_S)


@dataclass(frozen=True)
class Visitor:
    """Where a request comes from."""

    request: web.Request
    headers: Mapping[str, str]
    address: str
    session: LoggedIn | None
    base: str  # the console's path as the browser sees it
    is_secure: bool
    request_id: str


class Doorway:
    """Lets requests in."""

    variables: Final = (USERNAME, PASSWORD)

    def __init__(
        self, wall: Wall, credentials: LoginCredentials | None, clock: Clock, dice: Dice
    ) -> None:
        self.wall = wall
        self._credentials = credentials
        self._dice = dice
        self.sessions = Sessions(clock, dice)
        self._throttle = Throttle(clock)

    @property
    def is_enabled(self) -> bool:
        """Whether there are credentials to log in with."""
        return self._credentials is not None

    def visitor(self, request: web.Request) -> Visitor:
        """Find out where a request comes from."""
        peer = request.transport.get_extra_info("peername") if request.transport else None
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        token = request.cookies.get(COOKIE, "")
        return Visitor(
            request,
            request.headers,
            self.wall.address(address, request.headers),
            self.sessions.find(token) if token and self.is_enabled else None,
            self.wall.base(address, request.headers),
            self.wall.is_secure(address, request.headers),
            self._dice.token(6).hex(),
        )

    async def log_in(self, visitor: Visitor, username: str, password: str) -> str:
        """Give the token of a new session, or refuse."""
        if self._credentials is None:
            raise ApiRefusal("disabled", "UI access is disabled until both variables are set")
        wait_s = self._throttle.wait_s(visitor.address)
        if wait_s > 0:
            raise ApiRefusal("slow_down", "too many attempts; wait a while", retry_after_s=wait_s)
        await asyncio.sleep(self._throttle.delay_s())
        if not self._credentials.fit(username, password):
            self._throttle.failed(visitor.address)
            raise ApiRefusal("wrong", "user name or password is wrong")
        self._throttle.succeeded(visitor.address)
        if visitor.session is not None:
            self.sessions.end(visitor.session.key)  # a new one with every login
        return self.sessions.begin(self._credentials.username)
