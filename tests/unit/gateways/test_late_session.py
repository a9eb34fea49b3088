"""Connections that come before the code of their protocol is loaded, with real sockets."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from kafscale.gateways.audit_log import AuditLog
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection
from kafscale.gateways.connections import ConnectionLimits, Connections
from kafscale.gateways.late_session import LateCode
from kafscale.gateways.listener import Listener
from kafscale.tasks import Tasks
from kafscale.testing.clock import ManualClock

pytestmark = pytest.mark.real_time
FRAME = b"\x00\x00\x00\x03abc"


class Echo:
    """Sends frames back, as soon as it is told to begin."""

    writes = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._frames: list[memoryview] = []

    def receive(self, frame: memoryview) -> None:
        self._frames.append(frame)

    def begin(self) -> None:
        for frame in self._frames:
            self._connection.send([len(frame).to_bytes(4, "big"), bytes(frame)])
            self._connection.release(len(frame))
        self._frames.clear()

    def writable(self) -> None: ...

    def closed(self) -> None: ...


class LateListener:
    """A listener whose code is there when the test says so, or never."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.refusals: list[str] = []
        self.made: list[Echo] = []
        self.loads = 0
        self.may_load = threading.Event()
        self._problem = problem
        self._tasks = Tasks()
        clock = ManualClock()
        self.connections = Connections(
            ConnectionLimits(),
            clock,
            buffered_bytes=lambda: 0,
            refusals=self.refusals.append,
            client_log=ClientLog(clock),
            audit=AuditLog(clock, lambda kind, outcome: None),
        )
        code = LateCode(self._load, self._tasks)
        self._listener = Listener(
            "LATE", lambda connection: code.session_of(connection, self._make), self.connections
        )

    def _load(self) -> None:
        self.loads += 1
        assert self.may_load.wait(20)
        if self._problem is not None:
            raise self._problem

    def _make(self, connection: Connection) -> Echo:
        self.made.append(Echo(connection))
        return self.made[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def open(self) -> None:
        self.port = await self._listener.open("127.0.0.1", 0)

    async def aclose(self) -> None:
        self.may_load.set()
        self._listener.close()
        await self._tasks.aclose()
        await self.connections.aclose()


@pytest.fixture
async def late() -> AsyncIterator[LateListener]:
    listener = LateListener()
    await listener.open()
    yield listener
    await listener.aclose()


async def until(holds: object) -> None:
    assert callable(holds)
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_frames_that_came_early_are_answered_in_their_order(late: LateListener) -> None:
    reader, writer = await late.connect()
    writer.write(FRAME + b"\x00\x00\x00\x03def")
    await until(lambda: len(late.connections) == 1 and late.loads == 1)
    assert late.made == []  # the loop goes on while a thread loads
    late.may_load.set()
    async with asyncio.timeout(20):
        assert await reader.readexactly(14) == FRAME + b"\x00\x00\x00\x03def"
    writer.write(FRAME)
    async with asyncio.timeout(20):
        assert await reader.readexactly(7) == FRAME
    writer.close()


async def test_large_frames_that_come_early_arrive_whole(late: LateListener) -> None:
    reader, writer = await late.connect()
    large = (1 << 20).to_bytes(4, "big") + bytes(1 << 20)
    writer.write(large * 3)
    await until(lambda: len(late.connections) == 1)
    await asyncio.sleep(0)
    late.may_load.set()
    async with asyncio.timeout(20):
        assert await reader.readexactly(3 * len(large)) == large * 3
    writer.close()


async def test_code_is_loaded_once(late: LateListener) -> None:
    early = [await late.connect() for _ in range(3)]
    await until(lambda: len(late.connections) == 3)
    late.may_load.set()
    await until(lambda: len(late.made) == 3)
    reader, writer = await late.connect()
    writer.write(FRAME)
    async with asyncio.timeout(20):
        assert await reader.readexactly(7) == FRAME
    assert (len(late.made), late.loads) == (4, 1)
    for _, one in [*early, (reader, writer)]:
        one.close()


async def test_a_client_that_has_gone_gets_no_session(late: LateListener) -> None:
    _, writer = await late.connect()
    await until(lambda: len(late.connections) == 1)
    writer.transport.abort()
    # It is not read from, so that its end shows when it is read again.
    late.may_load.set()
    await until(lambda: len(late.connections) == 0)


async def test_a_connection_ends_if_its_code_cannot_be_loaded() -> None:
    late = LateListener(ImportError("no such module"))
    await late.open()
    reader, writer = await late.connect()
    late.may_load.set()
    async with asyncio.timeout(20):
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
    assert late.refusals == ["not_loaded"]
    writer.close()
    await late.aclose()
