"""Simulated readers of committed records, and what they find at the end.

Next door: the clients that write (transactors.py), readers of all records (readers.py), the words
of the history (tests/faults/transaction_checker.py).
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import fetch, find_coordinator, list_offsets, offset_fetch
from tests.faults.committed import contents
from tests.faults.transaction_checker import MarkerFound, Read, Stable, TransactionHistory
from tests.simulation.cluster import Cluster, Connection, Unanswered
from tests.simulation.places import Place

_LIMIT = 1 << 20
_PAUSE_S = 0.3
ENDED_S = 120.0  # how long transactions may stay open when nothing goes wrong any more


class _Got(NamedTuple):
    code: int
    stable: int
    upcoming: int  # offset
    values: list[tuple[int, str]]
    markers: list[MarkerFound]


async def _fetch(connection: Connection, place: Place, at: int, isolation: int) -> _Got:
    row = fetch.FetchPartition(
        partition=place.partition, fetch_offset=at, partition_max_bytes=_LIMIT
    )
    request = fetch.FetchRequest(
        max_wait_ms=300,
        min_bytes=1,
        max_bytes=_LIMIT,
        isolation_level=isolation,
        topics=[fetch.FetchTopic(topic=place.topic, partitions=[row])],
    )
    answer = await connection.ask(request)
    if answer.error_code or not answer.responses:
        raise Unanswered("no partition")
    part = answer.responses[0].partitions[0]
    found = contents(place.number, at, part.records or memoryview(b""))
    return _Got(part.error_code, part.last_stable_offset, *found)


class CommittedReader:
    """Follows every partition from the beginning, until it is cancelled."""

    def __init__(self, cluster: Cluster, history: TransactionHistory) -> None:
        self._cluster = cluster
        self._history = history

    async def run(self, places: Sequence[Place]) -> None:
        await asyncio.gather(*map(self._follow, places))

    async def _follow(self, place: Place) -> None:
        loop, at = asyncio.get_running_loop(), 0
        while True:
            asked_s = loop.time()
            try:
                connection = await self._cluster.leader(place)
                got = await _fetch(connection, place, at, 1)
            except Unanswered:
                self._cluster.hang_up()
                await asyncio.sleep(_PAUSE_S)
                continue
            if got.code:
                self._cluster.forget(place)
                await asyncio.sleep(_PAUSE_S)
                continue
            told = Stable(connection.host, place.number, got.stable, asked_s, loop.time())
            self._history.stable.append(told)
            self._history.reads += [
                Read(self._cluster.name, place.number, offset, value, got.stable)
                for offset, value in got.values
            ]
            at = got.upcoming


async def read_the_end(
    cluster: Cluster, places: Sequence[Place], owners: Iterable[str], history: TransactionHistory
) -> None:
    """Note what is there when nothing goes wrong any more."""
    for place in places:
        if not await _is_ended(cluster, place):
            history.hanging.append(f"{place.topic}-{place.partition}")
        for got in await _read_place(cluster, place, 1):
            history.committed += [(place.number, offset, value) for offset, value in got.values]
        for got in await _read_place(cluster, place, 0):
            history.markers += got.markers
    topics = list(dict.fromkeys(place.topic for place in places))
    for owner in owners:
        history.offsets[owner] = await _committed_offset(cluster, owner, topics)


async def _end_of(cluster: Cluster, place: Place, isolation: int) -> int | None:
    row = list_offsets.ListOffsetsPartition(partition_index=place.partition, timestamp=-1)
    request = list_offsets.ListOffsetsRequest(
        isolation_level=isolation,
        topics=[list_offsets.ListOffsetsTopic(name=place.topic, partitions=[row])],
    )
    try:
        found = (await (await cluster.leader(place)).ask(request)).topics[0].partitions[0]
    except Unanswered:
        cluster.hang_up()
        return None
    if found.error_code:
        cluster.forget(place)
        return None
    return int(found.offset)


async def _is_ended(cluster: Cluster, place: Place) -> bool:
    """Whether no transaction is open, before long."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + ENDED_S
    while loop.time() < until_s:
        stable, high = await _end_of(cluster, place, 1), await _end_of(cluster, place, 0)
        if stable is not None and stable == high:
            return True
        await asyncio.sleep(_PAUSE_S)
    return False


async def _read_place(cluster: Cluster, place: Place, isolation: int) -> list[_Got]:
    found: list[_Got] = []
    at = 0
    while True:
        end = await _end_of(cluster, place, isolation)
        if end is not None and end <= at:
            return found
        try:
            got = await _fetch(await cluster.leader(place), place, at, isolation)
        except Unanswered:
            cluster.hang_up()
        else:
            if got.code == ErrorCode.NONE:
                found.append(got)
                at = got.upcoming
                continue
            cluster.forget(place)
        await asyncio.sleep(_PAUSE_S)


async def _committed_offset(cluster: Cluster, owner: str, topics: Sequence[str]) -> int:
    """The highest offset of a group; its members go forward only."""
    request = offset_fetch.OffsetFetchRequest(
        group_id=owner,
        topics=[offset_fetch.OffsetFetchRequestTopic(name, [0]) for name in topics],
        require_stable=True,
    )
    asked = find_coordinator.FindCoordinatorRequest(key=owner)
    while True:
        try:
            found = await (await cluster.any()).ask(asked)
            if not found.error_code:
                connection = await cluster.to((found.host, found.port))
                told = await connection.ask(request, version=7)
                rows = [row for topic in told.topics for row in topic.partitions]
                if not told.error_code and not any(row.error_code for row in rows):
                    return max(int(row.committed_offset) for row in rows)
        except Unanswered:
            cluster.hang_up()
        await asyncio.sleep(_PAUSE_S)
