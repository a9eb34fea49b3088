"""Questions asked by hand: watermarks of every broker, and the whole log with its epochs.

In this room: ListOffsets v1 and Fetch v11 over own sockets, records opened without the code
under test. These clients ask every broker that answers, whatever metadata says.
Next door: the frames (tests/support/wire.py).
"""

import socket
import struct
import time
from collections.abc import Iterator, Mapping

from tests.faults import places
from tests.faults.history import NOTHING, OK, Found, History, Send, Watermark
from tests.faults.workers import Worker
from tests.support import wire

LIST_OFFSETS = 2
METADATA = 3
LATEST = -1
CODECS, CONTROL = 7, 32


def list_offsets(partitions: int, correlation_id: int) -> bytes:
    """Where do all partitions end?"""
    topics = places.by_topic(range(partitions))
    body = struct.pack(">ii", -1, len(topics))
    for topic, asked in topics.items():
        body += wire.string(topic) + struct.pack(">i", len(asked))
        body += b"".join(struct.pack(">iq", partition, LATEST) for partition in asked)
    return wire.frame(LIST_OFFSETS, 1, correlation_id, body)


def offsets_listed(body: bytes) -> dict[int, int]:
    """The ends of the partitions that were answered without an error."""
    found: dict[int, int] = {}
    (topics,) = struct.unpack_from(">i", body)
    at = 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", body, at)
        topic = body[at + 2 : at + 2 + length].decode()
        (count,) = struct.unpack_from(">i", body, at + 2 + length)
        at += 6 + length
        for partition, error, _, offset in struct.iter_unpack(">ihqq", body[at : at + 22 * count]):
            if error == 0:
                found[places.number_of(topic, partition)] = offset
        at += 22 * count
    return found


def knows(port: int, topic: str, within_s: float = 5.0) -> tuple[bytes, int] | None:
    """Id and width of a topic as a broker, asked itself, knows it (Metadata v12); None: not."""
    name = topic.encode()
    asked = b"\x02" + bytes(16) + bytes([len(name) + 1]) + name + b"\0"
    head = struct.pack(">hhi", METADATA, 12, 1) + wire.string("raw") + b"\0"
    body = head + asked + b"\0\0\0"  # no creation, no operations, no tags
    answer = ask(port, struct.pack(">i", len(body)) + body, within_s)
    at = answer.index(name)
    (error,) = struct.unpack_from(">h", answer, at - 3)
    at += len(name)
    # After the id: whether it is internal, and the partitions as a compact array.
    return None if error else (answer[at : at + 16], answer[at + 17] - 1)


def ask(port: int, request: bytes, within_s: float) -> bytes:
    with socket.create_connection(("127.0.0.1", port), within_s) as sock:
        sock.settimeout(within_s)
        sock.sendall(request)
        return wire.read_answer(sock)[1]


class Surveyor(Worker):
    """Asks one broker, directly, where the partitions end."""

    every_s = 0.1
    patience_s = 5.0

    def __init__(self, broker: str, port: int, history: History) -> None:
        super().__init__(f"surveyor of {broker}", "", history)
        self._broker, self._port = broker, port

    def work(self) -> None:
        while not self.stopping.wait(self.every_s):
            try:
                self._survey()
            except OSError:
                continue  # dead, paused or cut off; it is asked again

    def _survey(self) -> None:
        """As long as the connection lasts."""
        with socket.create_connection(("127.0.0.1", self._port), self.patience_s) as sock:
            sock.settimeout(self.patience_s)
            number = 0
            while not self.stopping.wait(self.every_s):
                number += 1
                begun_s = time.monotonic()
                sock.sendall(list_offsets(self.history.partitions, number))
                _, body = wire.read_answer(sock)
                ended_s = time.monotonic()
                for partition, high in offsets_listed(body).items():
                    self.history.watermarks.append(
                        Watermark(self._broker, partition, high, begun_s, ended_s)
                    )


class Stubborn(Worker):
    """Writes to one broker, directly, whatever metadata says; a paused one finds its requests.

    Any answer but success leaves it open whether the record is there.
    """

    every_s = 0.2
    patience_s = 120.0

    def __init__(self, broker: str, port: int, history: History) -> None:
        super().__init__(f"stubborn-{broker}", "", history)
        self.answered_s: dict[int, float] = {}  # by partition, the last time
        self._port = port
        self._number = 0

    def work(self) -> None:
        while not self.stopping.wait(self.every_s):
            try:
                self._insist()
            except OSError:
                continue

    def _insist(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port), 5.0) as sock:
            sock.settimeout(1.0)
            while not self.stopping.wait(self.every_s):
                note = Send(
                    self.name,
                    self._number % self.history.partitions,
                    self._number,
                    time.monotonic(),
                )
                self._number += 1
                self.history.sends.append(note)
                records = wire.batch([note.value.encode()], int(time.time() * 1000))
                place = places.PLACES[note.partition]
                sock.sendall(wire.produce(*place, records, -1, note.number))
                self._wait(sock, note)

    def _wait(self, sock: socket.socket, note: Send) -> None:
        until_s = time.monotonic() + self.patience_s
        while True:
            try:
                _, body = wire.read_answer(sock)
                break
            except TimeoutError:
                if self.stopping.is_set() or time.monotonic() > until_s:
                    raise
        error, offset = wire.produce_error(body)
        note.ended_s = time.monotonic()
        if error == 0:
            note.outcome, note.offset = OK, offset
            self.answered_s[note.partition] = note.ended_s
        else:
            note.error = str(error)


def ends(ports: list[int], partitions: int, within_s: float = 120.0) -> dict[int, int]:
    """Where each partition ends, as the highest that any broker says."""
    found: dict[int, int] = {}
    deadline = time.monotonic() + within_s
    while len(found) < partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {sorted(found)} of {partitions} partitions have an end")
        for port in ports:
            try:
                said = offsets_listed(ask(port, list_offsets(partitions, 1), 5.0))
            except OSError:
                continue
            for partition, high in said.items():
                found[partition] = max(found.get(partition, 0), high)
    return found


def read_log(ports: list[int], upto: Mapping[int, int], within_s: float = 240.0) -> list[Found]:
    """Every record of every partition up to its end, from whichever broker hands it out."""
    deadline = time.monotonic() + within_s
    return [
        record
        for partition, end in sorted(upto.items())
        for record in _read_partition(ports, partition, end, deadline)
    ]


def _read_partition(ports: list[int], partition: int, end: int, deadline: float) -> list[Found]:
    found: list[Found] = []
    turn, said = 0, 0
    while (position := found[-1].offset + 1 if found else 0) < end:
        if time.monotonic() > deadline:
            raise TimeoutError(f"partition {partition}: at {position} of {end}, last error {said}")
        port = ports[turn % len(ports)]
        try:
            body = ask(port, wire.fetch(*places.PLACES[partition], position, 1, 8 << 20), 10.0)
        except OSError:
            turn += 1
            continue
        said, _, data = wire.fetched(body)
        fresh = [one for one in opened(partition, bytes(data)) if one.offset >= position]
        if said or not fresh:
            turn += 1
            time.sleep(0.02)
        found += fresh
    return found


def opened(partition: int, data: bytes) -> Iterator[Found]:
    """The records of whole uncompressed batches, with their batch's leader epoch."""
    at = 0
    while at + 61 <= len(data):
        base, length, epoch = struct.unpack_from(">qii", data, at)
        if at + 12 + length > len(data):
            return
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        (count,) = struct.unpack_from(">i", data, at + 57)
        assert attributes & CODECS == 0, "these workers do not compress"
        place = at + 61
        for _ in range(count):
            size, place = _varint(data, place)
            delta, value = _record(data, place)
            yield Found(partition, base + delta, NOTHING if attributes & CONTROL else value, epoch)
            place += size
        at += 12 + length


def _record(data: bytes, at: int) -> tuple[int, str]:
    """Offset delta and value."""
    _, at = _varint(data, at + 1)  # after the attributes: timestamp delta
    delta, at = _varint(data, at)
    key, at = _varint(data, at)
    size, at = _varint(data, at + max(key, 0))
    return delta, data[at : at + max(size, 0)].decode(errors="replace")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
