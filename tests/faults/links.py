"""TCP wires between processes that can be cut, and the thread they run in.

In this room: bytes of connections, both ways, and the loop that carries them.
Next door: the wire to a bucket, which knows HTTP (s3_proxy.py), a wire that loses single bytes
for tests of the etcd adapter (tests/support/tcp_proxy.py).
Never here: what the bytes mean.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from tests.support.ports import free_port

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, for wires that outlive single calls."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="wires", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], within_s: float = 30.0) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(within_s)

    def close(self) -> None:
        async def stop() -> None:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        self.run(stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self.loop.close()


class Link:
    """A wire to one port of loopback. Its own port stays, whichever process listens behind it.

    `hold` is a network that swallows packets: connections stay, nothing moves, and what was sent
    arrives when it heals, as TCP would resend it. `refuse` is one that answers with resets.
    """

    def __init__(self, thread: LoopThread, server_port: int) -> None:
        self.port = free_port()
        self._thread = thread
        self._server_port = server_port
        self._open: asyncio.Event | None = None
        self._refusing = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        thread.run(self._begin())

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def hold(self) -> None:
        self._thread.run(self._set(opened=False, refusing=False))

    def refuse(self) -> None:
        self._thread.run(self._set(opened=True, refusing=True))

    def heal(self) -> None:
        self._thread.run(self._set(opened=True, refusing=False))

    def close(self) -> None:
        self._thread.run(self._end())

    async def _begin(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _set(self, opened: bool, refusing: bool) -> None:
        assert self._open is not None
        self._refusing = refusing
        if opened:
            self._open.set()
        else:
            self._open.clear()
        if refusing:
            self._hang_up()

    def _hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        self._hang_up()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._open is not None
        self._writers.add(writer)
        try:
            await self._open.wait()
            if self._refusing:
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
            self._writers.add(far_writer)
            try:
                pumps = [
                    asyncio.ensure_future(self._pump(reader, far_writer)),
                    asyncio.ensure_future(self._pump(far_reader, writer)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)
            finally:
                self._writers.discard(far_writer)
                far_writer.transport.abort()
        except OSError:
            pass  # no process listens there now; the client sees its connection end
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        assert self._open is not None
        while data := await source.read(262_144):
            await self._open.wait()
            sink.write(data)
            await sink.drain()
