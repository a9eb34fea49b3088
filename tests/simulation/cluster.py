"""A Kafka client's view of a cluster, over the simulated network.

In this room: connections with many requests in flight, and which broker leads which partition.
Next door: what clients do with it (producers.py, readers.py, members.py).
Never here: decisions about retrying.
"""

import asyncio
import random
import struct
from collections.abc import Sequence
from typing import Any

from kafscale.testing.simulated.network import SimulatedNetwork, SimulatedStream
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.messages import metadata
from kafscale.wire.kafka.schema import Message
from tests.simulation.places import Place

ANSWER_S = 8.0  # how long a client waits for an answer
VERSION = {0: 7, 1: 11, 2: 5, 3: 9, 8: 7, 9: 5, 10: 2, 11: 5, 12: 3, 13: 2, 14: 3, 22: 1}
VERSION |= {19: 4, 20: 3, 44: 1}  # topics come, go and move


class Unanswered(Exception):
    """The client cannot know whether the broker carried out the request."""


class Connection:
    """Requests in order, answers as they come."""

    def __init__(self, stream: SimulatedStream, name: str, host: str) -> None:
        self._stream = stream
        self.host = host
        self._name = name
        self._last = 0
        self._waiting: dict[int, tuple[asyncio.Future[Any], type[Message], int]] = {}
        self.is_open = True
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def begin(self, message: Message, version: int | None = None) -> "asyncio.Future[Any]":
        """Send now; the answer comes later."""
        self._last += 1
        version = VERSION[message.api_key] if version is None else version
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            self._stream.send(frame.request_frame(self._last, message, version, self._name))
        except ConnectionError as problem:
            answer.set_exception(Unanswered(str(problem)))
            return answer
        self._waiting[self._last] = (answer, BY_KEY[message.api_key].response, version)
        return answer

    async def ask(
        self, message: Message, timeout_s: float = ANSWER_S, version: int | None = None
    ) -> Any:
        return await answered(self.begin(message, version), timeout_s)

    async def _read(self) -> None:
        problem = ""
        try:
            while True:
                found = memoryview(await self._stream.read_frame())
                (number,) = struct.unpack_from(">i", found)
                answer, kind, version = self._waiting.pop(number)
                if not answer.done():
                    answer.set_result(frame.read_response(found, kind, version)[1])
        except ConnectionError as lost:
            problem = str(lost)
        finally:
            self.is_open = False
            for answer, _, _ in self._waiting.values():
                if not answer.done():
                    answer.set_exception(Unanswered(problem))
                    answer.exception()  # looked at, in case no client waits any more

    def close(self) -> None:
        self._stream.close()


async def answered(answer: "asyncio.Future[Any]", timeout_s: float = ANSWER_S) -> Any:
    try:
        async with asyncio.timeout(timeout_s):
            return await answer
    except TimeoutError:
        raise Unanswered("no answer in time") from None


class Cluster:
    """Where the partitions are, as far as one client knows."""

    def __init__(
        self, network: SimulatedNetwork, hosts: Sequence[str], port: int, name: str, seed: int
    ) -> None:
        self._network = network
        self.bootstrap = [(host, port) for host in hosts]
        self.name = name
        self.dice = random.Random(f"{seed}/{name}")
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    async def any(self) -> Connection:
        """A connection to some broker."""
        known = list(self._addresses.values()) or self.bootstrap
        if self.dice.random() < 0.3:
            known = self.bootstrap
        return await self.to(self.dice.choice(known))

    async def any_broker(self) -> Connection:
        """A connection to one of all brokers, chosen by chance, whatever metadata says."""
        return await self.to(self.dice.choice(self.bootstrap))

    async def to(self, address: tuple[str, int]) -> Connection:
        known = self._connections.get(address)
        if known is not None and known.is_open:
            return known
        try:
            stream = await self._network.connect(*address)
        except ConnectionError as problem:
            raise Unanswered(str(problem)) from None
        made = self._connections[address] = Connection(stream, self.name, address[0])
        return made

    async def leader(self, place: Place) -> Connection:
        """The broker to talk to about a partition."""
        asked = place.topic, place.partition
        node = self._leaders.get(asked)
        if node is None or node not in self._addresses:
            await self.refresh(place.topic)
            node = self._leaders.get(asked)
        if node is None or node not in self._addresses:
            raise Unanswered("no leader")
        return await self.to(self._addresses[node])

    async def refresh(self, topic: str) -> None:
        asked = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        found = await (await self.any()).ask(asked)
        self._addresses = {row.node_id: (row.host, row.port) for row in found.brokers}
        for row in found.topics:
            for told in row.partitions:
                self._leaders[topic, told.partition_index] = told.leader_id

    def forget(self, place: Place) -> None:
        """The leader may be another by now."""
        self._leaders.pop((place.topic, place.partition), None)

    def wander(self, place: Place) -> None:
        """Ask any broker that answers for the metadata again."""
        self.forget(place)
        self._addresses.clear()

    def hang_up(self) -> None:
        """Close every connection, as clients do that got no answer."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
