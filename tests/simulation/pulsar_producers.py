"""Simulated producers of Pulsar: they count their messages, and send again what has no receipt.

In this room: what the C++ client does with receipts, with a closed producer, and with no answer.
Next door: Kafka's producers (producers.py), where partitions are (cluster.py).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from kafscale.testing.simulated.clock import wall_ms
from kafscale.testing.simulated.network import SimulatedNetwork, SimulatedStream
from kafscale.wire.pulsar.frame import read_frame, sign_entry, write_command
from kafscale.wire.pulsar.messages import commands
from kafscale.wire.pulsar.messages.metadata import (
    MessageMetadata,
    SingleMessageMetadata,
    single_bytes,
)
from tests.faults.history import OK, History, Send
from tests.simulation.cluster import ANSWER_S, Cluster, Unanswered
from tests.simulation.places import Place

PORT = 6650
IN_FLIGHT = 5


class Entry:
    """One message, or a batch of them."""

    def __init__(self, sends: list[Send], first: int, now_ms: int) -> None:
        self.sends = sends
        self.first = first
        self._now_ms = now_ms

    def frame(self, name: str) -> list[bytes]:
        """The SEND of it."""
        metadata = MessageMetadata(
            producer_name=name, sequence_id=self.first, publish_time=self._now_ms
        )
        payload = self.sends[0].value.encode()
        count = len(self.sends)
        if count > 1:
            metadata.num_messages_in_batch = count
            payload = b"".join(map(self._single, range(count)))
        head, payload = sign_entry(metadata.encode(), payload)
        send = commands.Send(producer_id=0, sequence_id=self.first, num_messages=count)
        return [write_command(send, behind=len(head) + len(payload)), head, payload]

    def _single(self, at: int) -> bytes:
        value = self.sends[at].value.encode()
        one = SingleMessageMetadata(payload_size=len(value), sequence_id=self.first + at)
        return single_bytes(one) + value


class PulsarProducer:
    """One client; each partition has a producer with a name of its own."""

    def __init__(self, cluster: Cluster, network: SimulatedNetwork, history: History) -> None:
        self._cluster = cluster
        self._network = network
        self._history = history
        self._epoch = 0
        history.idempotent.add(cluster.name)

    async def run(self, places: Sequence[Place], count: int, pause_s: float) -> None:
        """Send so many messages to each place."""
        await asyncio.gather(*(self._fill(place, count, pause_s) for place in places))

    async def _fill(self, place: Place, count: int, pause_s: float) -> None:
        number, waiting, dice = 0, list[Entry](), self._cluster.dice
        while number < count or waiting:
            stream: SimulatedStream | None = None
            try:
                async with asyncio.timeout(ANSWER_S):
                    stream = await self._begin(place)
                for entry in waiting:  # what has no receipt is sent again, before all else
                    stream.send(entry.frame(self._name(place)))
                while number < count or waiting:
                    while len(waiting) < IN_FLIGHT and number < count:
                        size = min(dice.randint(1, 4), count - number)
                        waiting.append(self._entry(place, number, size))
                        number += size
                        stream.send(waiting[-1].frame(self._name(place)))
                    async with asyncio.timeout(ANSWER_S):
                        self._hear(waiting, await self._answer(stream))
                    await asyncio.sleep(dice.random() * pause_s)
            except (Unanswered, ConnectionError, TimeoutError):
                self._cluster.forget(place)
                await asyncio.sleep(0.1 + dice.random() * 0.3)
            finally:
                if stream is not None:
                    stream.close()

    def _name(self, place: Place) -> str:
        return f"{self._cluster.name}-{place.number}"

    def _entry(self, place: Place, first: int, size: int) -> Entry:
        now_s = asyncio.get_running_loop().time()
        sends = [Send(self._cluster.name, place.number, first + at, now_s) for at in range(size)]
        self._history.sends += sends
        return Entry(sends, first, wall_ms(now_s))

    async def _begin(self, place: Place) -> SimulatedStream:
        """A connection on which the producer may write."""
        host = (await self._cluster.leader(place)).host
        stream = await self._network.connect(host, PORT)
        await self._ask(stream, commands.Connect(client_version="test", protocol_version=20))
        self._epoch += 1
        wish = commands.Producer(
            topic=f"{place.topic}-partition-{place.partition}",
            producer_id=0,
            request_id=1,
            producer_name=self._name(place),
            user_provided_producer_name=False,
            epoch=self._epoch,
        )
        answer = await self._ask(stream, wish)
        if not isinstance(answer, commands.ProducerSuccess):
            stream.close()
            raise Unanswered(str(answer))
        return stream

    async def _ask(self, stream: SimulatedStream, command: commands.Command) -> commands.Command:
        stream.send([write_command(command)])
        return await self._answer(stream)

    async def _answer(self, stream: SimulatedStream) -> commands.Command:
        while True:
            command: Any = read_frame(memoryview(await stream.read_frame())).command
            if not isinstance(command, commands.Ping):
                return command
            stream.send([write_command(commands.Pong())])

    def _hear(self, waiting: list[Entry], told: commands.Command) -> None:
        if not isinstance(told, commands.SendReceipt):
            raise Unanswered(f"{told} instead of a receipt")
        entry = waiting.pop(0)
        assert told.sequence_id == entry.first, f"{told} for {entry.first}"
        assert told.message_id is not None
        first = told.message_id.entry_id
        if first >= 0:  # else the messages were stored before, at unknown offsets
            for at, send in enumerate(entry.sends):
                send.ended_s = asyncio.get_running_loop().time()
                send.outcome, send.offset = OK, first + at
