"""What a client can send to keep a broker busy: large requests, packed records, bad bytes.

Here: each attack as frames that are sent again and again over a few connections, and the process
that sends them. The frames are built before the attack begins.
Next door: what an innocent client feels meanwhile (innocent.py), the table of bad input with the
answers that are right (tests/bad_input).
"""

import contextlib
import socket
import struct
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Event
from typing import Final, NamedTuple

import cramjam
import lz4.frame

from benchmarks.many import framed
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from kafscale.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafscale.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from kafscale.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from kafscale.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafscale.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from kafscale.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from kafscale.wire.kafka.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafscale.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafscale.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafscale.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from kafscale.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafscale.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafscale.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafscale.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafscale.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafscale.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafscale.wire.kafka.schema import NO_UUID, Message
from tests.bad_input.payloads import forged, good, record
from tests.support import old_wire, wire

TOPIC: Final = "attacked"
PARTITIONS: Final = 100
DEEP: Final = "deep"  # one batch with very many records
DEEP_RECORDS: Final = 400_000
ROWS: Final = 100_000
_EACH: Final = ROWS // PARTITIONS - 2
_CODECS: Final[dict[str, tuple[int, Callable[[bytes], bytes]]]] = {
    "gzip": (1, lambda data: zlib.compress(data, wbits=31)),
    "snappy": (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": (3, lambda data: bytes(lz4.frame.compress(data))),
    "zstd": (4, lambda data: bytes(cramjam.zstd.compress(data, level=3))),
}
_PAUSE_S: Final = 0.05


class Attack(NamedTuple):
    """Frames that are sent one after the other, each after the answer to the one before."""

    name: str
    frames: Callable[[], Sequence[bytes]]
    connections: int = 2
    at_once: int = 1  # frames sent before the first answer is read


# -- packed records --------------------------------------------------------------------------------


def packed(codec: str, payload: bytes, count: int = 1) -> bytes:
    """A batch whose records are packed."""
    number, pack = _CODECS[codec]
    return forged(pack(payload), count, attributes=number)


def produce(rows: Sequence[tuple[int, bytes]], topic: str = TOPIC, version: int = 7) -> bytes:
    """A Produce request with these record sets by partition."""
    data = [PartitionProduceData(number, records) for number, records in rows]
    return framed(ProduceRequest(None, -1, 30_000, [TopicProduceData(topic, data)]), version)


def bombs(codec: str, batches: int = 400, size: int = 10_400_000) -> list[bytes]:
    """A request of many small batches, each of which unpacks to `size` bytes."""
    batch = packed(codec, record(value=bytes(size)))
    return [produce([(number % PARTITIONS, batch) for number in range(batches)])]


def many_records(count: int = DEEP_RECORDS) -> bytes:
    """One batch with very many records of different sizes."""
    values = [b"v", b"four", b"", b"seven b"]
    payload = b"".join(record(delta, value=values[delta % 4]) for delta in range(count))
    return packed("zstd", payload, count)


def old_set(magic: int) -> bytes:
    """A packed message set of an old format with very many messages."""
    rows = [old_wire.Old(number, 0, b"k", b"value") for number in range(100_000)]
    inner = old_wire.plain(rows, magic)
    body = zlib.compress(inner, wbits=31)
    return old_wire.message(magic, None, body, attributes=old_wire.GZIP, timestamp_ms=0)


# -- very many rows --------------------------------------------------------------------------------


def by_rows(message: Message, version: int) -> Callable[[], Sequence[bytes]]:
    """One request, framed when the attack is built."""
    return lambda: [framed(message, version)]


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def _list_offsets() -> list[bytes]:
    rows = [ListOffsetsPartition(number % PARTITIONS, -1, 5) for number in range(20_000)]
    return [framed(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, rows)]), 5)]


def _times_in_deep() -> list[bytes]:
    far_ms = 1 << 40
    rows = [ListOffsetsPartition(0, -1, far_ms + number) for number in range(20)]
    return [framed(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(DEEP, rows)]), 5)]


def _metadata() -> list[bytes]:
    names = [MetadataRequestTopic(NO_UUID, name) for name in _names("no/such", ROWS - 10)]
    return [framed(MetadataRequest(names, False), 7)]


def _fetch(version: int = 11, partitions: int = ROWS - 10) -> list[bytes]:
    rows = [
        FetchPartition(number % PARTITIONS, fetch_offset=0, partition_max_bytes=1)
        for number in range(partitions)
    ]
    topics = [FetchTopic(TOPIC, partitions=rows)]
    return [framed(FetchRequest(max_wait_ms=0, max_bytes=1, topics=topics), version)]


def _fetch_old() -> list[bytes]:
    rows = [FetchPartition(0, fetch_offset=0, partition_max_bytes=50 << 20)]
    request = FetchRequest(
        max_wait_ms=0, max_bytes=50 << 20, topics=[FetchTopic(DEEP, partitions=rows)]
    )
    return [framed(request, version) for version in (0, 2)]


def _offset_commit() -> list[bytes]:
    rows = [OffsetCommitRequestPartition(number % PARTITIONS, 1) for number in range(ROWS - 10)]
    request = OffsetCommitRequest(group_id="rows", topics=[OffsetCommitRequestTopic(TOPIC, rows)])
    return [framed(request, 2)]


def _offset_delete() -> list[bytes]:
    rows = [OffsetDeleteRequestPartition(number % PARTITIONS) for number in range(ROWS - 10)]
    return [framed(OffsetDeleteRequest("rows", [OffsetDeleteRequestTopic(TOPIC, rows)]), 0)]


def _produce_rows() -> list[bytes]:
    return [produce([(number % PARTITIONS, good(b"v")) for number in range(20_000)])]


def _bad_rows() -> list[bytes]:
    return [produce([(number % PARTITIONS, b"") for number in range(ROWS - 10)])]


def _join() -> list[bytes]:
    rows = [JoinGroupRequestProtocol(name, b"m") for name in _names("protocol", ROWS - 10)]
    return [framed(JoinGroupRequest("rows", 6000, 6000, "", None, "consumer", rows), 3)]


def _sync() -> list[bytes]:
    rows = [SyncGroupRequestAssignment(name, b"a") for name in _names("member", ROWS - 10)]
    return [framed(SyncGroupRequest("rows", 1, "no-member", assignments=rows), 2)]


_INTS: Final = list(range(ROWS - 10))
_MANY_ROWS: Final = (
    Attack("ListOffsets by time, 20,000 rows", _list_offsets),
    Attack("Metadata, 100,000 names", _metadata),
    Attack("Fetch, 100,000 rows", _fetch),
    Attack("Fetch with session, 100,000 rows", lambda: _fetch_session()),
    Attack("Produce, 20,000 good batches", _produce_rows),
    Attack("Produce, 100,000 empty sets", _bad_rows),
    Attack("OffsetCommit, 100,000 rows", _offset_commit),
    Attack(
        "OffsetFetch, 100,000 rows",
        by_rows(OffsetFetchRequest("rows", [OffsetFetchRequestTopic(TOPIC, _INTS)]), 5),
    ),
    Attack("OffsetDelete, 100,000 rows", _offset_delete),
    Attack(
        "LeaveGroup, 100,000 rows",
        lambda: [
            framed(
                LeaveGroupRequest("rows", "", [MemberIdentity(n) for n in _names("m", ROWS - 10)]),
                3,
            )
        ],
    ),
    Attack("JoinGroup, 100,000 protocols", _join),
    Attack("SyncGroup, 100,000 members", _sync),
    Attack(
        "DescribeProducers, 100,000 rows",
        by_rows(DescribeProducersRequest([TopicRequest(TOPIC, _INTS)]), 0),
    ),
    Attack(
        "DeleteRecords, 100,000 rows",
        lambda: [
            framed(
                DeleteRecordsRequest(
                    [
                        DeleteRecordsTopic(
                            TOPIC, [DeleteRecordsPartition(n % PARTITIONS, 0) for n in _INTS]
                        )
                    ],
                    30_000,
                ),
                1,
            )
        ],
    ),
    Attack(
        "DescribeConfigs, 9,000 times one topic",
        lambda: [
            framed(
                DescribeConfigsRequest(
                    [DescribeConfigsResource(2, name, None) for name in _names("no", 9_000)]
                    + [DescribeConfigsResource(2, TOPIC, None)]
                ),
                1,
            )
        ],
    ),
    Attack(
        "CreateTopics, 50,000 bad names",
        lambda: [
            framed(
                CreateTopicsRequest([CreatableTopic(n, 1, 1) for n in _names("a/b", 50_000)], 1000),
                1,
            )
        ],
    ),
    Attack(
        "DeleteTopics, 100,000 names",
        lambda: [framed(DeleteTopicsRequest(topic_names=_names("no", ROWS - 10)), 1)],
    ),
    Attack(
        "DeleteGroups, 100,000 names",
        lambda: [framed(DeleteGroupsRequest(_names("no", ROWS - 10)), 0)],
    ),
    Attack(
        "DescribeGroups, 20,000 names",
        lambda: [framed(DescribeGroupsRequest(_names("no", 20_000)), 0)],
    ),
    Attack(
        "FindCoordinator, 100,000 keys",
        lambda: [
            framed(FindCoordinatorRequest(coordinator_keys=_names("no", ROWS - 10)), 4),
        ],
    ),
    Attack(
        "ElectLeaders, 100,000 rows",
        by_rows(ElectLeadersRequest(0, [TopicPartitions(TOPIC, _INTS)], 1000), 1),
    ),
    Attack("DescribeLogDirs, everything", by_rows(DescribeLogDirsRequest(None), 1)),
)


def _fetch_session() -> list[bytes]:
    rows = [
        FetchPartition(number % PARTITIONS + number // PARTITIONS * PARTITIONS, fetch_offset=0)
        for number in range(ROWS - 10)
    ]
    request = FetchRequest(
        max_wait_ms=0, max_bytes=1, session_epoch=0, topics=[FetchTopic(TOPIC, partitions=rows)]
    )
    return [framed(request, 11)]


# -- bad bytes -------------------------------------------------------------------------------------

_BAD_FRAMES: Final = (
    struct.pack(">i", -1),
    struct.pack(">i", 0),
    struct.pack(">i", 2**31 - 1),
    struct.pack(">i", 3) + b"abc",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    wire.frame(999, 0, 1, b""),
    wire.frame(3, 99, 1, b""),
    wire.frame(3, 1, 1, struct.pack(">i", 2**31 - 1)),
    wire.frame(3, 1, 1, struct.pack(">i", -5)),
    wire.frame(0, 7, 1, b"\xff\xff" + bytes(20)),
)
_BAD_BATCHES: Final = (
    b"",
    good(b"x")[:-1],
    good(b"x")[:40],
    good(b"x" * 2_000_000),
    forged(record(), 2**31 - 1),
    forged(record(5), 1),
    forged(record(), 1, magic=7),
    forged(record(), 1, magic=1),
    forged(record(), 1, attributes=0x20),
    forged(b"\x04\x22\x4d\x18" * 1000, 1, attributes=3),
    forged(b"\x28\xb5\x2f\xfd" * 1000, 1, attributes=4),
)

ATTACKS: Final = (
    Attack("zstd bombs, 400 batches of 10.4 MB", lambda: bombs("zstd")),
    Attack("gzip bombs, 400 batches of 10.4 MB", lambda: bombs("gzip")),
    Attack("lz4 bombs, 400 batches of 10.4 MB", lambda: bombs("lz4")),
    Attack("snappy, 40 batches of 10.4 MB", lambda: bombs("snappy", 40)),
    Attack("a batch of 400,000 records", lambda: [produce([(0, many_records())])]),
    Attack("an old message set, packed", lambda: [produce([(0, old_set(1))], version=2)]),
    Attack("Fetch in old formats", _fetch_old),
    Attack("times in a batch of 400,000 records", _times_in_deep),
    *_MANY_ROWS,
    Attack("Metadata of all topics, 200 at once", by_rows(MetadataRequest(None), 7), at_once=200),
    Attack("ApiVersions, 3,000 at once", by_rows(ApiVersionsRequest(), 0), at_once=3_000),
    Attack("Produce, 500 at once", lambda: [produce([(0, good(b"v" * 100))])], at_once=500),
    Attack("bad batches", lambda: [produce([(0, bad)]) for bad in _BAD_BATCHES]),
)


# -- the attacker ----------------------------------------------------------------------------------


def run(port: int, name: str, ready: Event, go: Event, stop: Event) -> None:
    """The attacker's process: builds the frames, then sends them until it is stopped."""
    (attack,) = (one for one in ATTACKS if one.name == name)
    frames = attack.frames()
    ready.set()
    go.wait()
    threads = [
        threading.Thread(target=_send, args=(port, attack, frames, stop), daemon=True)
        for _ in range(attack.connections)
    ]
    for thread in threads:
        thread.start()
    stop.wait()


def _send(port: int, attack: Attack, frames: Sequence[bytes], stop: Event) -> None:
    while not stop.is_set():
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 30) as sock,
        ):
            for frame in frames:
                sock.sendall(frame * attack.at_once)
                for _ in range(attack.at_once):
                    (size,) = struct.unpack(">i", wire.read_exactly(sock, 4))
                    _discard(sock, size)
                if stop.is_set():
                    return


def _discard(sock: socket.socket, size: int) -> None:
    while size:
        part = sock.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the broker closed the connection")
        size -= len(part)


def run_bad_frames(port: int, ready: Event, go: Event, stop: Event) -> None:
    """Send frames that make no sense, each on a connection of its own."""
    ready.set()
    go.wait()
    while not stop.is_set():
        for frame in _BAD_FRAMES:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port)) as sock,
            ):
                sock.settimeout(_PAUSE_S)
                sock.sendall(frame)
                sock.recv(1)


def run_half_frames(port: int, ready: Event, go: Event, stop: Event) -> None:
    """Keep 300 connections with half a frame each, and send a byte now and then."""
    ready.set()
    go.wait()
    socks: list[socket.socket] = []
    while not stop.is_set():
        with contextlib.suppress(OSError):
            if len(socks) < 300:
                socks.append(socket.create_connection(("127.0.0.1", port)))
                socks[-1].sendall(struct.pack(">i", 50 << 20) + bytes(20))
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.sendall(b"\0")
        time.sleep(_PAUSE_S if len(socks) >= 300 else 0)


def run_deaf(port: int, ready: Event, go: Event, stop: Event) -> None:
    """Ask for much and read none of it."""
    (frame,) = _fetch(partitions=10_000)
    ready.set()
    go.wait()
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
    for sock in socks:
        sock.settimeout(_PAUSE_S)
    while not stop.is_set():
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.sendall(frame)


def run_scrapes(metrics_port: int, ready: Event, go: Event, stop: Event) -> None:
    """Ask for the metrics again and again."""
    ready.set()
    go.wait()
    while not stop.is_set():
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=30).read()


def run_large_group(port: int, ready: Event, go: Event, stop: Event) -> None:
    """Let 60 members with 1 MB of metadata each join one group, again and again."""
    metadata = bytes(1_000_000)
    frame = framed(
        JoinGroupRequest(
            "large", 6000, 1000, "", None, "x", [JoinGroupRequestProtocol("p", metadata)]
        ),
        3,
    )
    ready.set()
    go.wait()
    while not stop.is_set():
        socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        for sock in socks:
            sock.settimeout(0.2)
            with contextlib.suppress(OSError):
                sock.sendall(frame)
        for sock in socks:
            with contextlib.suppress(OSError, struct.error):
                (size,) = struct.unpack(">i", wire.read_exactly(sock, 4))
                _discard(sock, size)
            sock.close()


SPECIAL: Final = {
    "bad frames": run_bad_frames,
    "300 half frames": run_half_frames,
    "clients that read nothing": run_deaf,
    "60 members of 1 MB": run_large_group,
    "scrapes": run_scrapes,
}
