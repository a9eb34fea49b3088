"""Simulated readers: consumers without a group, watchers of the end, and the last full reading.

Next door: connections (cluster.py), the words of a history (tests/faults/history.py), consumer
groups (members.py).
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from kafscale.records.batch import walk
from kafscale.records.record import open_batch
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import fetch, list_offsets
from tests.faults.history import NOTHING, Found, History, Poll, Trouble, Watermark
from tests.simulation.cluster import Cluster, Connection, Unanswered
from tests.simulation.places import Place

LATEST = -1
EARLIEST = -2
_LIMIT = 1 << 20
_PAUSE_S = 0.3
_LOOK_S = 0.4


class Fetched(NamedTuple):
    code: ErrorCode
    high: int
    found: list[Found]


async def fetch_once(
    connection: Connection, place: Place, offset: int, wait_ms: int = 500
) -> Fetched:
    """The records from `offset` on."""
    row = fetch.FetchPartition(
        partition=place.partition, fetch_offset=offset, partition_max_bytes=_LIMIT
    )
    request = fetch.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=_LIMIT,
        topics=[fetch.FetchTopic(topic=place.topic, partitions=[row])],
    )
    answer = await connection.ask(request)
    if answer.error_code or not answer.responses:
        return Fetched(ErrorCode(answer.error_code or -1), -1, [])
    part = answer.responses[0].partitions[0]
    data = part.records or b""
    found = [
        Found(
            place.number,
            record.offset,
            NOTHING if header.is_control else (record.value or b"").decode(),
            header.leader_epoch,
        )
        for at, header in walk(data)
        for record in open_batch(data[at : at + header.size], _LIMIT)
        if record.offset >= offset
    ]
    return Fetched(ErrorCode(part.error_code), part.high_watermark, found)


class Reader:
    """Follows every partition from the beginning, until it is cancelled."""

    def __init__(self, cluster: Cluster, history: History, *, strict: bool) -> None:
        """`strict`: an offset that was readable once must never be out of range."""
        self._strict = strict
        self._cluster = cluster
        self._history = history

    async def run(self, places: Sequence[Place]) -> None:
        await asyncio.gather(*map(self._follow, places))

    async def _follow(self, place: Place) -> None:
        at = 0
        while True:
            try:
                at = await self._step(place, at)
            except Unanswered:
                self._cluster.hang_up()
                await asyncio.sleep(_PAUSE_S)

    async def _step(self, place: Place, at: int) -> int:
        loop, history, name = asyncio.get_running_loop(), self._history, self._cluster.name
        connection = await self._cluster.leader(place)
        asked_s = loop.time()
        code, high, found = await fetch_once(connection, place, at)
        now_s = loop.time()
        if code is not ErrorCode.NONE:
            if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._strict:
                history.troubles.append(Trouble(name, f"{place}: {at} is out of range", now_s))
            self._cluster.forget(place)
            await asyncio.sleep(_PAUSE_S)
            return at
        history.watermarks.append(Watermark(connection.host, place.number, high, asked_s, now_s))
        for one in (row for row in found if row.value != NOTHING):
            history.polls.append(Poll(name, 0, place.number, one.offset, one.value, now_s))
        return found[-1].offset + 1 if found else at


class Watcher:
    """Asks any broker for the end of every partition: only the owner of one may answer."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster = cluster
        self._history = history

    async def run(self, places: Sequence[Place]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._cluster.dice.random() * _LOOK_S)
            place = self._cluster.dice.choice(places)
            try:
                asked = await self._cluster.any_broker()
                asked_s = loop.time()
                end = await find_offset(self._cluster, asked, place)
            except Unanswered:
                continue
            if end is not None:
                said = Watermark(asked.host, place.number, end, asked_s, loop.time())
                self._history.watermarks.append(said)


async def find_offset(
    cluster: Cluster, connection: Connection, place: Place, asked: int = LATEST
) -> int | None:
    """The end of a partition, or its beginning, if the leader can say."""
    row = list_offsets.ListOffsetsPartition(partition_index=place.partition, timestamp=asked)
    request = list_offsets.ListOffsetsRequest(
        topics=[list_offsets.ListOffsetsTopic(name=place.topic, partitions=[row])]
    )
    found = (await connection.ask(request)).topics[0].partitions[0]
    if found.error_code:
        cluster.forget(place)
        return None
    return int(found.offset)


async def read_all(cluster: Cluster, places: Sequence[Place]) -> list[Found]:
    """All records, read when there are no faults any more."""
    found: list[Found] = []
    for place in places:
        found += await read_place(cluster, place)
    return found


async def read_place(cluster: Cluster, place: Place) -> list[Found]:
    """All records of one place, however long it takes."""
    rows: list[Found] = []
    begin = 0
    while True:
        at = rows[-1].offset + 1 if rows else begin
        try:
            connection = await cluster.leader(place)
            end = await find_offset(cluster, connection, place)
            if end is not None:
                if end <= at:
                    return rows
                got = await fetch_once(connection, place, at, 100)
                rows += got.found
                if got.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    # The checker sees what is missing; the reading must come to an end.
                    begin = await find_offset(cluster, connection, place, EARLIEST) or begin
                    rows = [row for row in rows if row.offset >= begin]
                if got.code is ErrorCode.NONE:
                    continue
        except Unanswered:
            cluster.hang_up()
        cluster.forget(place)
        await asyncio.sleep(_PAUSE_S)
