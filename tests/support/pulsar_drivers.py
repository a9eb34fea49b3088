"""Pulsar clients of several languages behind one interface: write messages, read messages.

Next door: the programs (java/PulsarDriver.java, go_pulsar, js/pulsar), the form of questions
(clients/asked.py).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import pulsar

from tests.support.clients.asked import AskedProgram, bytes_of, word
from tests.support.golang import go_program
from tests.support.java import SOURCES, compiled
from tests.support.npm import node_program
from tests.support.pulsar_client import PATIENCE_MS, place, send_all

JAVA_VERSIONS = ("4.0.3", "3.0.7")
GO_VERSION = "0.19.0"
PYTHON_VERSION = "3.13.0"
NODE_VERSION = "1.1.1"  # of pulsar-flex


class PulsarMessage(NamedTuple):
    """A message, as every client knows it."""

    key: bytes | None
    value: bytes | None
    event_ms: int = 0
    properties: tuple[tuple[str, str], ...] = ()


class Received(NamedTuple):
    """A message and its id: ledger, entry, index."""

    message: PulsarMessage
    message_id: tuple[int, int, int]


class PulsarDriver(Protocol):
    """One client."""

    def send(self, topic: str, messages: Sequence[PulsarMessage]) -> list[tuple[int, int, int]]:
        """Write messages without waiting in between; gives their ids."""
        ...

    def receive(self, topic: str, subscription: str, count: int, mode: str) -> list[Received]:
        """Read and acknowledge the first messages of a new subscription."""
        ...

    def close(self) -> None:
        """End the client."""
        ...


class ProgramDriver:
    """Implements PulsarDriver by a program of another language."""

    def __init__(self, name: str, command: list[str]) -> None:
        self._program = AskedProgram(name, command)

    def ask(self, question: str) -> list[str]:
        return self._program.ask(question)

    def send(
        self, topic: str, messages: Sequence[PulsarMessage], command: str = "PRODUCE"
    ) -> list[tuple[int, int, int]]:
        lines = [f"{command} {topic} {len(messages)}", *map(_written, messages)]
        return [_id(line) for line in self.ask("\n".join(lines))]

    def receive(self, topic: str, subscription: str, count: int, mode: str) -> list[Received]:
        lines = self.ask(f"CONSUME {topic} {subscription} {mode} {count}")
        return [_received(line) for line in lines]

    def close(self) -> None:
        self._program.close()


class PythonDriver:
    """Implements PulsarDriver by the Python client."""

    def __init__(self, url: str) -> None:
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(url, logger=logger)

    def send(self, topic: str, messages: Sequence[PulsarMessage]) -> list[tuple[int, int, int]]:
        producer = self._client.create_producer(topic)
        ids = send_all(producer, [_arguments(one) for one in messages])
        producer.close()
        return [place(one) for one in ids]

    def receive(self, topic: str, subscription: str, count: int, mode: str) -> list[Received]:
        consumer = self._client.subscribe(
            topic,
            subscription,
            getattr(pulsar.ConsumerType, mode.replace("_", "")),
            initial_position=pulsar.InitialPosition.Earliest,
        )
        found = []
        for _ in range(count):
            message = consumer.receive(PATIENCE_MS)
            consumer.acknowledge(message)
            key = message.partition_key().encode() or None
            properties = tuple(sorted(message.properties().items()))
            read = PulsarMessage(key, message.value(), message.event_timestamp(), properties)
            found.append(Received(read, place(message.message_id())))
        consumer.close()
        return found

    def close(self) -> None:
        self._client.close()


def java_driver(version: str, url: str) -> ProgramDriver:
    """The Java client. Raises Unavailable."""
    client = f"org.apache.pulsar:pulsar-client:{version}"
    return ProgramDriver(f"Java {version}", [*compiled(SOURCES / "PulsarDriver.java", client), url])


def go_driver(url: str) -> ProgramDriver:
    """The Go client. Raises Unavailable."""
    return ProgramDriver("Go", [go_program(Path(__file__).parent / "go_pulsar"), url])


def node_driver(port: int) -> ProgramDriver:
    """The client of npm that is made of JavaScript alone. Raises Unavailable."""
    program = node_program(Path(__file__).parent / "js/pulsar/pulsar_driver.js")
    return ProgramDriver("Node", [*program, f"127.0.0.1:{port}"])


def _arguments(message: PulsarMessage) -> dict[str, object]:
    given: dict[str, object] = {"content": message.value, "properties": dict(message.properties)}
    if message.key is not None:
        given["partition_key"] = message.key.decode()
    if message.event_ms:
        given["event_timestamp"] = message.event_ms
    return given


def _written(message: PulsarMessage) -> str:
    words = [word(message.key), word(message.value), str(message.event_ms)]
    for name, value in message.properties:
        words += [word(name.encode()), word(value.encode())]
    return " ".join(words)


def _received(line: str) -> Received:
    key, value, event_ms, message_id, *rest = line.split(" ")
    texts = [(bytes_of(one) or b"").decode() for one in rest]
    properties = tuple(zip(texts[::2], texts[1::2], strict=True))
    read = PulsarMessage(bytes_of(key), bytes_of(value), int(event_ms), properties)
    return Received(read, _id(message_id))


def _id(text: str) -> tuple[int, int, int]:
    ledger, entry, index = map(int, text.split(":"))
    return ledger, entry, index
