"""Readers of committed records under faults, and what is found when everything is over.

In this room: Fetch by hand with `read_committed`, asked of every broker that answers; the last
reading of records, markers and offsets. What fetched batches say serves the simulation, too.
Next door: the clients that write (transactors.py), the judgement (transaction_checker.py), readers
of all records (raw.py).
"""

import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafscale.records import control
from kafscale.records.batch import walk
from kafscale.records.record import open_batch
from tests.faults import raw
from tests.faults.history import History
from tests.faults.transaction_checker import MarkerFound, Read, Stable, TransactionHistory
from tests.faults.workers import QUIET, Reach, Worker
from tests.support import wire

ENDED_S: Final = 90.0  # how long transactions may stay open when all faults are over
_UNCOMMITTED, _COMMITTED = 0, 1
_LIMIT: Final = 8 << 20
_PAUSE_S: Final = 0.05
_PATIENCE_S: Final = 60.0

Places = Sequence[tuple[str, int]]  # topic and partition; their number is their place here


class Contents(NamedTuple):
    """What fetched batches hold."""

    upcoming: int  # offset
    values: list[tuple[int, str]]
    markers: list[MarkerFound]


def contents(partition: int, at: int, data: memoryview) -> Contents:
    """Values and markers, with their offsets, from the offset that was asked for."""
    values: list[tuple[int, str]] = []
    markers: list[MarkerFound] = []
    upcoming = at
    for begin, header in walk(data):
        upcoming = header.base_offset + header.last_offset_delta + 1
        if control.is_marker(header):
            committed, turn = control.read_marker(data, begin)
            found = MarkerFound(partition, header.base_offset, header.producer_id, turn, committed)
            markers.append(found)
        elif not header.is_control and header.record_count:
            values += [
                (record.offset, (record.value or b"").decode())
                for record in open_batch(data[begin : begin + header.size], _LIMIT)
                if record.offset >= at
            ]
    return Contents(upcoming, values, markers)


class _Got(NamedTuple):
    broker: int  # its port
    high: int
    stable: int
    contents: Contents
    begun_s: float
    ended_s: float


class _Asking:
    """One place, asked of the broker that answered last, and of the others if it does not."""

    def __init__(self, ports: Sequence[int], places: Places, number: int) -> None:
        self._ports, self._number = ports, number
        self._place = places[number]
        self._turn = 0

    def fetch(self, at: int, isolation: int) -> _Got | None:
        """None: this broker has no answer; another one is asked next."""
        port = self._ports[self._turn % len(self._ports)]
        begun_s = time.monotonic()
        try:
            request = wire.fetch(*self._place, at, 1, _LIMIT, isolation=isolation)
            body = raw.ask(port, request, 10.0)
        except OSError:
            self._turn += 1
            return None
        error, high, data = wire.fetched(body)
        if error:
            self._turn += 1
            return None
        found = contents(self._number, at, data)
        stable = wire.last_stable(body)
        return _Got(port, high, stable, found, begun_s, time.monotonic())


class CommittedReader(Worker):
    """Follows one place from its beginning, and notes how far outcomes were said to be known."""

    def __init__(
        self,
        ports: Sequence[int],
        places: Places,
        number: int,
        history: History,
        told: TransactionHistory,
    ) -> None:
        super().__init__(f"reader of committed records {number}", {}, history)
        self._asking = _Asking(ports, places, number)
        self._number, self._told = number, told

    def work(self) -> None:
        at = 0
        while not self.stopping.wait(_PAUSE_S):
            got = self._asking.fetch(at, _COMMITTED)
            if got is None:
                continue
            said = Stable(str(got.broker), self._number, got.stable, got.begun_s, got.ended_s)
            self._told.stable.append(said)
            self._told.reads += [
                Read(self.name, self._number, offset, value, got.stable)
                for offset, value in got.contents.values
            ]
            at = got.contents.upcoming


def read_the_end(
    reach: Reach,
    ports: Sequence[int],
    places: Places,
    owners: Iterable[str],
    told: TransactionHistory,
) -> None:
    """Note what is there when nothing goes wrong any more."""
    for number, (topic, partition) in enumerate(places):
        asking = _Asking(ports, places, number)
        if not _is_ended(asking):
            told.hanging.append(f"{topic}-{partition}")
        for got in _read(asking, _COMMITTED):
            told.committed += [(number, offset, value) for offset, value in got.contents.values]
        for got in _read(asking, _UNCOMMITTED):
            told.markers += got.contents.markers
    topics = dict.fromkeys(topic for topic, _ in places)
    for owner in owners:
        told.offsets[owner] = _committed_offset(reach, owner, topics)


def _is_ended(asking: _Asking) -> bool:
    """Whether no transaction is open, before long."""
    deadline = time.monotonic() + ENDED_S
    while time.monotonic() < deadline:
        got = asking.fetch(0, _COMMITTED)
        if got is not None and got.stable == got.high:
            return True
        time.sleep(_PAUSE_S)
    return False


def _read(asking: _Asking, isolation: int) -> list[_Got]:
    """All of a place."""
    found: list[_Got] = []
    at = 0
    deadline = time.monotonic() + ENDED_S
    while time.monotonic() < deadline:
        got = asking.fetch(at, isolation)
        if got is None:
            time.sleep(_PAUSE_S)
            continue
        found.append(got)
        at = got.contents.upcoming
        if at >= (got.stable if isolation else got.high):
            return found
    raise TimeoutError(f"a place of transactions could not be read beyond {at}")


def _committed_offset(reach: Reach, owner: str, topics: Iterable[str]) -> int:
    """The highest offset of a group; its transactions go forward only."""
    consumer = Consumer({**reach, "group.id": owner, **QUIET})
    deadline = time.monotonic() + ENDED_S
    try:
        while True:
            try:
                asked = [TopicPartition(topic, 0) for topic in topics]
                rows = consumer.committed(asked, _PATIENCE_S)
                return max(-1, *(row.offset for row in rows))
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
    finally:
        consumer.close()
