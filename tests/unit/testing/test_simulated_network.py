"""The simulated network: ordered, in pieces, late, cut, and never after a cut."""

import asyncio
import struct
from collections.abc import Coroutine
from typing import Any

import pytest

from kafscale.testing.simulated.isolation import isolated
from kafscale.testing.simulated.loop import SimulatedLoop
from kafscale.testing.simulated.network import NetworkFaults, SimulatedNetwork


class Echo(asyncio.BufferedProtocol):
    """Sends back what it gets."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.room = bytearray(7)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.room)

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(bytes(self.room[:nbytes]))


def play(loop: SimulatedLoop, work: Coroutine[Any, Any, Any]) -> None:
    with isolated():
        try:
            loop.run_until_complete(work)
        finally:
            loop.close()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("pieces", [1, 5])
def test_frames_come_whole_and_in_order_whatever_the_pieces(pieces: int) -> None:
    loop = SimulatedLoop(1)
    network = SimulatedNetwork(loop, 1, NetworkFaults(jitter_s=0.1, pieces=pieces))

    async def world() -> None:
        network.listen(loop.process("broker"), Echo, "b", 1)
        stream = await network.connect("b", 1)
        sent = [bytes([number]) * number for number in range(1, 30)]
        for body in sent:
            stream.send([framed(body)])
        assert [await stream.read_frame() for _ in sent] == sent

    play(loop, world())


def test_a_connection_is_refused_where_no_process_listens_or_lives() -> None:
    loop = SimulatedLoop(1)
    network = SimulatedNetwork(loop, 1, NetworkFaults())

    async def world() -> None:
        with pytest.raises(ConnectionRefusedError):
            await network.connect("b", 1)
        process = loop.process("broker")
        network.listen(process, Echo, "b", 1)
        stream = await network.connect("b", 1)
        process.crash()
        with pytest.raises(ConnectionResetError):
            await stream.read_frame()
        with pytest.raises(ConnectionRefusedError):
            await network.connect("b", 1)

    play(loop, world())


def test_what_a_partition_holds_back_arrives_when_it_heals() -> None:
    loop = SimulatedLoop(1)
    network = SimulatedNetwork(loop, 1, NetworkFaults())

    async def world() -> None:
        process = loop.process("broker")
        network.listen(process, Echo, "b", 1)
        stream = await network.connect("b", 1)
        await asyncio.sleep(1)
        began_s = loop.time()
        network.partition(process, 30)
        stream.send([framed(b"late")])
        assert await stream.read_frame() == b"late"
        assert loop.time() - began_s >= 30

    play(loop, world())


def test_nothing_that_was_sent_after_a_cut_arrives() -> None:
    loop = SimulatedLoop(1)
    network = SimulatedNetwork(loop, 1, NetworkFaults())

    async def world() -> None:
        process = loop.process("broker")
        network.listen(process, Echo, "b", 1)
        stream = await network.connect("b", 1)
        stream.send([framed(b"before")])
        assert await stream.read_frame() == b"before"
        network.cut_some(process, 1.0)
        stream.send([framed(b"after")])
        with pytest.raises(ConnectionResetError):
            await stream.read_frame()

    play(loop, world())
