"""Pulsar's protocol from the client's side, frame by frame, for what no real client sends."""

import socket
import struct
from typing import Any, Self

from kafscale.wire.pulsar.frame import read_frame, sign_entry, write_command
from kafscale.wire.pulsar.messages.commands import (
    Command,
    Connect,
    Connected,
    Flow,
    Producer,
    ProducerSuccess,
    Send,
    Subscribe,
    Success,
)
from kafscale.wire.pulsar.messages.metadata import MessageMetadata


class RawClient:
    """One connection; `say` what you like."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @classmethod
    def to(cls, port: int) -> Self:
        return cls(socket.create_connection(("127.0.0.1", port), timeout=60))

    def say(self, *commands: Command) -> None:
        self.sock.sendall(b"".join(map(write_command, commands)))

    def say_raw(self, command: bytes, behind: bytes = b"") -> None:
        """A frame whose lengths are right, whatever the command is."""
        size = struct.pack(">II", 4 + len(command) + len(behind), len(command))
        self.sock.sendall(size + command + behind)

    def hear(self) -> Command:
        (size,) = struct.unpack(">I", self._exactly(4))
        return read_frame(memoryview(self._exactly(size))).command

    def ask(self, command: Command) -> Command:
        self.say(command)
        return self.hear()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            assert more, "the broker has closed the connection"
            data += more
        return data

    def connect(self, version: str = "test") -> None:
        answer = self.ask(Connect(client_version=version, protocol_version=20))
        assert isinstance(answer, Connected)

    def produce(self, topic: str, number: int = 1, **more: Any) -> None:
        wish = Producer(topic=topic, producer_id=number, request_id=number, **more)
        assert isinstance(self.ask(wish), ProducerSuccess)

    def subscribe_many(self, topic: str, first: int, count: int) -> None:
        """So many subscriptions, each with a consumer that waits."""
        wishes = [
            Subscribe(topic=topic, subscription=f"s{n}", sub_type=1, consumer_id=n, request_id=n)
            for n in range(first, first + count)
        ]
        for begin in range(0, count, 200):
            some = wishes[begin : begin + 200]
            self.say(*some)
            assert all(isinstance(self.hear(), Success) for _ in some)
        self.say(*(Flow(consumer_id=one.consumer_id, message_permits=1000) for one in wishes))

    def send(
        self, metadata: MessageMetadata | bytes, payload: bytes = b"v", number: int = 1, **more: Any
    ) -> None:
        raw = metadata if isinstance(metadata, bytes) else metadata.encode()
        head, payload = sign_entry(raw, payload)
        command = Send(producer_id=number, sequence_id=0, **more)
        behind = len(head) + len(payload)
        self.sock.sendall(write_command(command, behind=behind) + head + payload)
