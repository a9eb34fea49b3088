"""A simulated network: ordered byte streams with delays, cuts and partitions.

Here: what `loop.create_server` listens on, the transport a broker's connection gets, and the
stream a client gets. Bytes come in pieces and late, in order, and never after a cut.
Next door: the loop (loop.py).

A partition holds bytes back until it heals, as TCP does: a request may reach a broker long after
its sender has given up and asked somewhere else.
"""

import asyncio
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafscale.model.buffers import Buffer
from kafscale.testing.simulated.loop import SimulatedLoop, SimulatedProcess

_LENGTH: Final = struct.Struct(">i")


@dataclass(slots=True)
class NetworkFaults:
    """How bad the network is. All at their defaults: fast and whole."""

    latency_s: float = 0.0005
    jitter_s: float = 0.0005
    pieces: int = 1  # most pieces that what was sent at once arrives in
    cut_chance: float = 0.0  # per sending
    silent_death_chance: float = 0.0  # a crashed machine's clients are not told


class SimulatedNetwork:
    """All listening addresses and all links."""

    def __init__(self, loop: SimulatedLoop, seed: int, faults: NetworkFaults) -> None:
        loop.network = self
        self.loop = loop
        self.faults = faults
        self.dice = random.Random(f"{seed}/network")
        self._listening: dict[tuple[str, int], _Listening] = {}
        self._links: dict[_Link, None] = {}
        self._healed_s: dict[str, float] = {}

    def listen(
        self, process: SimulatedProcess, factory: Callable[[], Any], host: str, port: int
    ) -> "SimulatedServer":
        """Listen on an address; clients may connect."""
        place = (host, port)
        old = self._listening.get(place)
        if old is not None and old.process.is_alive:
            raise OSError(f"{host}:{port} is taken")
        self._listening[place] = _Listening(process, factory)
        process.on_crash.append(lambda: self._died(process))
        return SimulatedServer(self, place)

    def close(self, place: tuple[str, int]) -> None:
        """Stop listening on an address."""
        self._listening.pop(place, None)

    async def connect(self, host: str, port: int) -> "SimulatedStream":
        """Connect from the current process; ConnectionRefusedError if no process listens."""
        await asyncio.sleep(self.delay_s())
        found = self._listening.get((host, port))
        if found is None or not found.process.is_alive:
            raise ConnectionRefusedError(f"no process listens on {host}:{port}")
        link = _Link(self, self.loop.current_process(), found.process)
        self._links[link] = None
        link.server.begin(found.factory())
        return link.client

    def partition(self, process: SimulatedProcess, for_s: float) -> None:
        """Cut a process off: for a while no bytes reach it or leave it."""
        self._healed_s[process.name] = self.loop.time() + for_s

    def cut_some(self, process: SimulatedProcess, chance: float) -> None:
        """Reset some of a process's connections."""
        for link in list(self._links):
            ends = (link.server.process, link.client.process)
            if process in ends and self.dice.random() < chance:
                link.cut()

    def delay_s(self) -> float:
        """Give the delay of one piece of bytes."""
        return self.faults.latency_s + self.dice.random() * self.faults.jitter_s

    def held_until(self, link: "_Link") -> float:
        """When both ends can be reached."""
        healed = self._healed_s
        ends = (link.server.process.name, link.client.process.name)
        return max(healed.get(end, 0.0) for end in ends)

    def forget(self, link: "_Link") -> None:
        """A link has ended."""
        self._links.pop(link, None)

    def _died(self, process: SimulatedProcess) -> None:
        for place, found in list(self._listening.items()):
            if found.process is process:
                del self._listening[place]
        for link in list(self._links):
            if link.server.process is process:
                if self.dice.random() >= self.faults.silent_death_chance:
                    link.cut()
                self.forget(link)


@dataclass(slots=True)
class _Listening:
    process: SimulatedProcess
    factory: Callable[[], Any]


class SimulatedServer:
    """What asyncio's server looks like to a listener."""

    def __init__(self, network: SimulatedNetwork, place: tuple[str, int]) -> None:
        """Stand for a place that is listened on."""
        self._network = network
        self._place = place
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        """Where it listens."""
        return self._place

    def setsockopt(self, *_: object) -> None:
        """There is no buffer to size."""

    def close(self) -> None:
        """Accept no new connections."""
        self._network.close(self._place)


class _Link:
    """Two ends and what is on its way between them."""

    def __init__(
        self, network: SimulatedNetwork, client: SimulatedProcess, server: SimulatedProcess
    ) -> None:
        self.network = network
        self.server = SimulatedTransport(self, server)
        self.client = SimulatedStream(self, client)
        self._is_cut = False

    def send(self, data: bytes, to: "_End") -> None:
        """Deliver bytes to an end, in pieces, after all bytes that were sent before."""
        if self._is_cut:
            return  # the ends have not heard of it yet
        network = self.network
        dice, faults = network.dice, network.faults
        if faults.cut_chance and dice.random() < faults.cut_chance:
            data = data[: dice.randrange(len(data) + 1)]
            self._arrive(data, to)
            self.cut()
            return
        pieces = dice.randint(1, faults.pieces) if faults.pieces > 1 else 1
        size = -(-len(data) // pieces)
        for at in range(0, len(data), size):
            self._arrive(data[at : at + size], to)

    def _arrive(self, data: bytes, to: "_End") -> None:
        if data:
            network = self.network
            at = max(network.loop.time(), network.held_until(self)) + network.delay_s()
            to.arrives_s = max(to.arrives_s, at)
            network.loop.call_at(to.arrives_s, to.take, data, context=to.process.context())

    def end(self, at_end: "_End", *, reset: bool) -> None:
        """Tell an end that the link has ended: after all bytes, or instead of them."""
        loop = self.network.loop
        when = loop.time() + self.network.delay_s()
        if not reset:
            when = max(when, at_end.arrives_s)
        loop.call_at(when, at_end.lose, reset, context=at_end.process.context())

    def cut(self) -> None:
        """Reset both ends."""
        self._is_cut = True
        self.network.forget(self)
        self.end(self.server, reset=True)
        self.end(self.client, reset=True)


class _End:
    """One side of a link."""

    process: SimulatedProcess
    arrives_s: float

    def take(self, data: bytes) -> None:
        """Bytes have arrived."""
        raise NotImplementedError

    def lose(self, reset: bool) -> None:
        """The link has ended."""
        raise NotImplementedError


class SimulatedTransport(asyncio.Transport, _End):
    """The broker's end; drives an asyncio.BufferedProtocol."""

    def __init__(self, link: _Link, process: SimulatedProcess) -> None:
        """Wait for `begin`."""
        super().__init__()
        self._link = link
        self.process = process
        self.arrives_s = 0.0
        self._protocol: Any = None
        self._is_reading = True
        self._is_closing = False
        self._is_lost = False
        self._backlog: list[bytes] = []

    def begin(self, protocol: Any) -> None:
        """Connect, as the process that listens."""
        self._protocol = protocol
        loop = self._link.network.loop
        loop.call_soon(protocol.connection_made, self, context=self.process.context())

    def take(self, data: bytes) -> None:
        """Hand bytes to the protocol, or keep them while it does not read."""
        self._backlog.append(data)
        self._feed()

    def _feed(self) -> None:
        while self._backlog and self._is_reading and not self._is_closing:
            view = memoryview(self._backlog.pop(0))
            room = self._protocol.get_buffer(-1)
            size = min(len(room), len(view))
            room[:size] = view[:size]
            if size < len(view):
                self._backlog.insert(0, bytes(view[size:]))
            self._protocol.buffer_updated(size)

    def lose(self, reset: bool) -> None:
        """The client has closed the link."""
        if not self._is_lost:
            self._is_closing = self._is_lost = True
            self._link.network.forget(self._link)
            self._protocol.connection_lost(ConnectionResetError() if reset else None)

    def write(self, data: Buffer) -> None:
        """Send."""
        self.writelines([data])

    def writelines(self, list_of_data: Sequence[Buffer]) -> None:  # type: ignore[override]
        """Send at once."""
        if not self._is_closing:
            self._link.send(b"".join(list_of_data), self._link.client)

    def close(self) -> None:
        """Close after all written bytes are sent."""
        self._finish(reset=False)

    def abort(self) -> None:
        """Close at once."""
        self._finish(reset=True)

    def _finish(self, *, reset: bool) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._link.end(self._link.client, reset=reset)
            loop = self._link.network.loop
            loop.call_soon(self.lose, False, context=self.process.context())

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Keep what arrives."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Hand over what was kept, from the loop's next round on."""
        self._is_reading = True
        loop = self._link.network.loop
        loop.call_soon(self._feed, context=self.process.context())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits here: the network takes everything."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits here."""
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Where the client is."""
        return (self._link.client.process.name, 1) if name == "peername" else default


class SimulatedStream(_End):
    """A client's end: frames with a 4-byte length in front."""

    def __init__(self, link: _Link, process: SimulatedProcess) -> None:
        """Be connected."""
        self._link = link
        self.process = process
        self.arrives_s = 0.0
        self._received = bytearray()
        self._problem: ConnectionError | None = None
        self._news: asyncio.Future[None] | None = None

    def take(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._received += data
        self._wake()

    def lose(self, reset: bool) -> None:
        """The broker has closed the link."""
        self._problem = self._problem or ConnectionResetError("cut" if reset else "closed")
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send; ConnectionError when the connection is known to be over."""
        if self._problem is not None:
            raise self._problem
        self._link.send(b"".join(buffers), self._link.server)

    async def read_frame(self) -> bytes:
        """The next frame, without its length."""
        while True:
            received = self._received
            if len(received) >= _LENGTH.size:
                end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
                if len(received) >= end:
                    frame = bytes(received[_LENGTH.size : end])
                    del received[:end]
                    return frame
            if self._problem is not None:
                raise self._problem
            self._news = asyncio.get_running_loop().create_future()
            await self._news

    def close(self) -> None:
        """Close the connection."""
        if self._problem is None:
            self._problem = ConnectionResetError("closed here")
            self._wake()
            self._link.end(self._link.server, reset=False)
