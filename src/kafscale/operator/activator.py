"""The activator: it keeps the clients of a sleeping cluster until a broker is there.

Here: connections are accepted and held; the operator asks how many wait, and wakes the brokers.
Then the bytes of each connection are passed on to a broker. The client learns the brokers' own
addresses from the first answer and goes there.
Next door: who asks (brokers/pages.py), where it runs (parts/activator.py).
Never here: what the bytes mean.
"""

import asyncio
import contextlib
import signal
from typing import Final

import structlog
from aiohttp import web

from kafscale.operator.page import alive, open_page
from kafscale.tasks import Tasks

logger = structlog.get_logger()

MOST_CLIENTS: Final = 1000
WAIT_S: Final = 120.0  # for a broker; then the client is let go and tries again by itself
_TRY_S: Final = 0.2
_CONNECT_WITHIN_S: Final = 2.0
_CHUNK: Final = 64 << 10


class Activator:
    """Holds and relays connections. `brokers` is a host and a port that leads to any broker."""

    def __init__(self, brokers: tuple[str, int], wait_s: float = WAIT_S) -> None:
        self._brokers = brokers
        self._wait_s = wait_s
        self.waiting = 0
        self._count = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client from its first byte to its last."""
        if self._count >= MOST_CLIENTS:
            writer.close()
            return
        self._count += 1
        try:
            broker = await self._broker()
            if broker is not None:
                await _relay((reader, writer), broker)
        except (ConnectionError, OSError) as problem:
            logger.info("connection_ended", error=str(problem))
        finally:
            self._count -= 1
            writer.close()

    async def _broker(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to a broker as soon as there is one; None if that takes too long."""
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                while True:
                    with contextlib.suppress(OSError, TimeoutError):
                        async with asyncio.timeout(_CONNECT_WITHIN_S):
                            return await asyncio.open_connection(*self._brokers)
                    await asyncio.sleep(_TRY_S)
        except TimeoutError:
            return None
        finally:
            self.waiting -= 1


async def _relay(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    broker: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Pass bytes on in both directions until one side ends."""
    tasks = Tasks()
    tasks.spawn(_pass_on(client[0], broker[1]), "to the broker", awaited=True)
    tasks.spawn(_pass_on(broker[0], client[1]), "to the client", awaited=True)
    try:
        await tasks.wait_for_one()
    finally:
        await tasks.aclose()
        broker[1].close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


async def serve(host: str, port: int, metrics_port: int, brokers: tuple[str, int]) -> int:
    """Run an activator until SIGTERM; gives the exit code."""
    activator = Activator(brokers)
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leaving.set)

    async def waiting() -> web.Response:
        return web.json_response({"waiting": activator.waiting})

    runner = await open_page(host, metrics_port, {"/health": alive, "/waiting": waiting})
    server = await asyncio.start_server(activator.handle, host, port)
    logger.info("activator_started", port=port)
    try:
        await leaving.wait()
    finally:
        server.close()
        await runner.cleanup()
    return 0
