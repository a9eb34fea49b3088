"""A client's connection that leads on to another broker of the fleet.

Where clients reach all brokers by one address, the answer to LOOKUP sends them to that address
again, and their next CONNECT names the broker that they want. The broker that they arrive at passes
their frames on, and the bytes of the other one back.
Here: which broker a client means, and the way there and back. Neither side is read from while the
other one does not take what it was sent.
Next door: the order of commands (session.py), the answer to LOOKUP (topics.py).
Never here: what a frame means. The other broker asks the client who it is, too.
"""

import asyncio
import struct
from collections import deque
from typing import Final, cast

from kafscale.engine.engine import Engine
from kafscale.gateways.connection import Connection
from kafscale.model.endpoints import Endpoint

_LENGTH: Final = struct.Struct(">I")
_CONNECT_WITHIN_S: Final = 10.0


class UnknownBroker(Exception):
    """No broker of the fleet has the address that a client names."""


def broker_elsewhere(engine: Engine, listener: str, address: str) -> Endpoint | None:
    """Where the broker is that a client names; None if it is this one. Raises UnknownBroker.

    Clients name a host and a port. An address outside the fleet is not connected to.
    """
    wanted = address.rpartition("://")[2]
    own_id = engine.cluster.identity.broker_id
    found = {
        node.broker_id: endpoint
        for node in engine.cluster.nodes()
        if (endpoint := node.endpoints.get(listener)) is not None and str(endpoint) == wanted
    }
    if own_id in found:
        return None
    if not found:
        raise UnknownBroker(f"no broker of this fleet is at {wanted[:200]}")
    return next(iter(found.values()))


class Relay(asyncio.Protocol):
    """The connection to the other broker, and what waits for it."""

    def __init__(self, connection: Connection) -> None:
        """`connection`: the client's."""
        self._client = connection
        self._transport: asyncio.Transport | None = None
        self._frames: deque[tuple[memoryview, int]] = deque()
        self._is_blocked = True  # the other broker takes nothing now
        self._is_closed = False

    async def connect(self, endpoint: Endpoint) -> None:
        """Connect to the other broker; a client whose broker cannot be reached is sent away."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_WITHIN_S):
                await loop.create_connection(lambda: self, endpoint.host, endpoint.port)
        except OSError as problem:  # a timeout is one
            self._client.abort("broker_unreachable", f"{endpoint}: {problem}")

    # -- to the other broker ---------------------------------------------------------------------

    def pass_on(self, frame: memoryview, held_bytes: int) -> None:
        """Send a frame of the client, or keep it until the other broker takes it."""
        self._frames.append((frame, held_bytes))
        self._flush()

    def _flush(self) -> None:
        while self._frames and not self._is_blocked and self._transport is not None:
            frame, held_bytes = self._frames.popleft()
            self._transport.writelines((_LENGTH.pack(len(frame)), frame))
            self._client.release(held_bytes)

    def pause_writing(self) -> None:
        """The other broker does not read."""
        self._is_blocked = True

    def resume_writing(self) -> None:
        """The other broker reads again."""
        self._is_blocked = False
        self._flush()

    # -- to the client ---------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Send the other broker's bytes to the client."""
        self._client.send((data,))
        if self._client.is_write_blocked and self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """The client reads again."""
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    # -- life ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what has waited."""
        self._transport = cast(asyncio.Transport, transport)
        if self._is_closed:
            self._transport.abort()
            return
        self.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other broker has ended the connection: end the client's."""
        self._transport = None
        if not self._is_closed:
            self._client.finish()

    def close(self) -> None:
        """The client has gone."""
        self._is_closed = True
        self._frames.clear()
        if self._transport is not None:
            self._transport.abort()
