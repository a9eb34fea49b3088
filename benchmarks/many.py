"""Many partitions in one request, over one socket per broker: cheap enough to touch thousands.

In this room: requests built once by kafscale.wire and sent as they are, answers read with struct.
A batch is built once, too, and is the same for every partition.
Next door: one partition per request (raw.py), what is measured with it (partitions.py, lanes.py).
"""

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from kafscale.wire.kafka import frame
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafscale.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafscale.wire.kafka.schema import NO_UUID, Message

PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION, METADATA_VERSION = 7, 11, 4, 7
_SENT_ONCE = 7  # the correlation id of frames that are built once and sent often
_PRODUCED = struct.Struct(">ihqqq")  # partition, error, base offset, append time, log start
_FETCHED = struct.Struct(">ihqqqiii")  # partition, error, high, stable, start, aborted, replica
_ANSWER_S = 120.0


class Refused(Exception):
    """The broker answered an error."""


class Line:
    """One connection. Use with `with`."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._sock = socket.create_connection((host, port), _ANSWER_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def send(self, request: bytes) -> None:
        self._sock.sendall(request)

    def answer(self) -> memoryview:
        """The next answer without its correlation id; good until the next is asked for."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)[4:]

    def _exactly(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        filled = 0
        while filled < size:
            count = self._sock.recv_into(view[filled:])
            if not count:
                raise ConnectionError("the broker closed the connection")
            filled += count
        return view

    def ask(self, request: Message, version: int) -> Any:
        """Any other request, and its answer."""
        self.send(framed(request, version))
        body = b"\0\0\0\0" + bytes(self.answer())
        kind = BY_KEY[request.api_key].response
        return frame.read_response(memoryview(bytearray(body)), kind, version)[1]


def framed(request: Message, version: int) -> bytes:
    return b"".join(frame.request_frame(_SENT_ONCE, request, version, "bench"))


# -- topics ----------------------------------------------------------------------------------


def create(line: Line, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Make a topic; Refused with the broker's own words where it will not."""
    rows = [CreatableTopicConfig(*row) for row in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(topic, partitions, 1, [], rows)], 60_000)
    (result,) = line.ask(request, CREATE_VERSION).topics
    if result.error_code:
        raise Refused(f"error {result.error_code}: {result.error_message}")


def brokers(line: Line) -> int:
    """How many brokers the one at the other end knows."""
    return len(line.ask(MetadataRequest([], False), METADATA_VERSION).brokers)


def leaders(line: Line, topic: str) -> dict[int, int]:
    """The port of each partition's leader; partitions without one are left out."""
    request = MetadataRequest([MetadataRequestTopic(NO_UUID, topic)], False)
    answer = line.ask(request, METADATA_VERSION)
    ports = {broker.node_id: broker.port for broker in answer.brokers}
    return {
        row.partition_index: ports[row.leader_id]
        for found in answer.topics
        for row in found.partitions
        if not row.error_code and row.leader_id in ports
    }


# -- producing -------------------------------------------------------------------------------


def produce_frame(topic: str, partitions: Iterable[int], records: bytes) -> bytes:
    """The same batch for each of the partitions, acks=all."""
    rows = [PartitionProduceData(number, records) for number in partitions]
    request = ProduceRequest(None, -1, 60_000, [TopicProduceData(topic, rows)])
    return framed(request, PRODUCE_VERSION)


def check_produced(answer: memoryview) -> int:
    """How many partitions an answer to a request about one topic names; Refused for any error."""
    (name,) = struct.unpack_from(">h", answer, 4)
    at = 6 + name
    (count,) = struct.unpack_from(">i", answer, at)
    rows = answer[at + 4 : at + 4 + count * _PRODUCED.size]
    for partition, error, *_ in _PRODUCED.iter_unpack(rows):
        if error:
            raise Refused(f"produce to partition {partition}: error {error}")
    return int(count)


# -- fetching --------------------------------------------------------------------------------


class Fetched(NamedTuple):
    partition: int
    high: int
    records: memoryview


def fetch_frame(
    topic: str,
    offsets: Sequence[tuple[int, int]],
    *,
    partition_bytes: int = 1 << 20,
    answer_bytes: int = 50 << 20,
    wait_ms: int = 500,
) -> bytes:
    """Partitions with the offsets they are at; without a session."""
    rows = [
        FetchPartition(number, -1, offset, -1, -1, partition_bytes) for number, offset in offsets
    ]
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=answer_bytes,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic, NO_UUID, rows)],
    )
    return framed(request, FETCH_VERSION)


def fetched(answer: memoryview) -> Iterator[Fetched]:
    """The partitions of an answer about one topic."""
    error, _, topics = struct.unpack_from(">hii", answer, 4)
    if error:
        raise Refused(f"fetch: error {error}")
    if not topics:
        return
    (name,) = struct.unpack_from(">h", answer, 14)
    at = 16 + name
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(count):
        number, error, high, _, _, _, _, size = _FETCHED.unpack_from(answer, at)
        if error:
            raise Refused(f"fetch of partition {number}: error {error}")
        at += _FETCHED.size
        yield Fetched(number, high, answer[at : at + max(size, 0)])
        at += max(size, 0)


def next_offset(records: memoryview, default: int) -> int:
    """The offset after the last whole batch of fetched bytes."""
    at = 0
    while at + 61 <= len(records):
        base, length = struct.unpack_from(">qi", records, at)
        if at + 12 + length > len(records):
            break
        default = base + struct.unpack_from(">i", records, at + 23)[0] + 1
        at += 12 + length
    return default
