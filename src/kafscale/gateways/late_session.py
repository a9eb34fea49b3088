"""Connections that come before the code of their protocol is loaded.

Loading takes a tenth of a second. It happens on a thread when the first client comes, so that
neither the start of a broker nor its other clients wait for it.
Here: the loading, and a session that keeps frames meanwhile.
Next door: connections (connection.py), the doors that load late (broker/doors/fluvio_door.py).
"""

import asyncio
from collections.abc import Callable

from kafscale.gateways.connection import Connection, Session
from kafscale.tasks import Tasks


class LateCode:
    """Code that is loaded when the first client comes."""

    def __init__(self, load: Callable[[], object], tasks: Tasks) -> None:
        """`load` imports the code; it is called once, on a thread."""
        self._load = load
        self._tasks = tasks
        self._loading: asyncio.Task[object] | None = None
        self._is_loaded = False

    def session_of(self, connection: Connection, make: Callable[[Connection], Session]) -> Session:
        """What `make` makes, now or as soon as the code is there."""
        if self._is_loaded:
            return make(connection)
        if self._loading is None:
            self._loading = self._tasks.spawn(asyncio.to_thread(self._load), "loading a door")
            self._loading.add_done_callback(self._note)
        return LateSession(connection, make, self._loading)

    def _note(self, loading: asyncio.Task[object]) -> None:
        self._is_loaded = not loading.cancelled() and loading.exception() is None
        self._loading = None


class LateSession:
    """Implements gateways.connection.Session: another session does the work once it can be made."""

    def __init__(
        self,
        connection: Connection,
        make: Callable[[Connection], Session],
        loading: asyncio.Task[object],
    ) -> None:
        """Read nothing more of the connection until `loading` is done."""
        self._connection = connection
        self._make = make
        self._session: Session | None = None
        self._frames: list[memoryview] = []
        self._is_closed = False
        # Not now: an event loop may begin to read right after a connection was made.
        asyncio.get_running_loop().call_soon(self._wait)
        loading.add_done_callback(self._go_on)

    def _wait(self) -> None:
        if self._session is None and not self._is_closed:
            self._connection.fall_behind()

    @property
    def writes(self) -> bool:
        """See Session."""
        return self._session is not None and self._session.writes

    def receive(self, frame: memoryview) -> None:
        """See Session."""
        if self._session is None:
            self._frames.append(frame)
        else:
            self._session.receive(frame)

    def begin(self) -> None:
        """See Session."""
        if self._session is not None:
            self._session.begin()

    def writable(self) -> None:
        """See Session."""
        if self._session is not None:
            self._session.writable()

    def closed(self) -> None:
        """See Session."""
        self._is_closed = True
        self._frames.clear()
        if self._session is not None:
            self._session.closed()

    def _go_on(self, loading: asyncio.Task[object]) -> None:
        if self._is_closed:
            return
        if loading.cancelled() or loading.exception() is not None:
            self._connection.abort("not_loaded", "the code of the protocol cannot be loaded")
            return
        session = self._session = self._make(self._connection)
        for frame in self._frames:
            session.receive(frame)
        self._frames.clear()
        session.begin()
        self._connection.catch_up()
