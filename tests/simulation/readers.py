"""Simulated readers: consumers without a group, watchers of the end, and the last full reading.

Next door: connections (cluster.py), the checker (notes.py), consumer groups (members.py).
"""

import asyncio

from kafscale.records.batch import walk
from kafscale.records.record import open_batch
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import fetch, list_offsets
from tests.simulation.cluster import Cluster, Connection, Unanswered
from tests.simulation.notes import Notes, Seen

LATEST = -1
_LIMIT = 1 << 20


async def fetch_once(
    connection: Connection, topic: str, partition: int, offset: int, wait_ms: int = 500
) -> tuple[ErrorCode, int, list[tuple[int, bytes]]]:
    """Error code, high watermark, and the records from `offset` on."""
    row = fetch.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=_LIMIT
    )
    request = fetch.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=_LIMIT,
        topics=[fetch.FetchTopic(topic=topic, partitions=[row])],
    )
    answer = await connection.ask(request)
    if answer.error_code or not answer.responses:
        return ErrorCode(answer.error_code or -1), -1, []
    found = answer.responses[0].partitions[0]
    records = []
    for at, header in walk(found.records or b""):
        for record in open_batch((found.records or b"")[at : at + header.size], _LIMIT):
            if record.offset >= offset:
                records.append((record.offset, record.value or b""))
    return ErrorCode(found.error_code), found.high_watermark, records


class Reader:
    """Follows every partition from the beginning on, for ever."""

    def __init__(self, cluster: Cluster, topic: str, notes: Notes, *, strict: bool) -> None:
        self._cluster = cluster
        self._topic = topic
        self._notes = notes
        self._strict = strict

    async def run(self, partitions: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for partition in range(partitions):
                tasks.create_task(self._follow(partition))

    async def _follow(self, partition: int) -> None:
        at = 0
        loop = asyncio.get_running_loop()
        name = self._cluster.name
        while True:
            try:
                connection = await self._cluster.leader(self._topic, partition)
                asked_s = loop.time()
                code, high, records = await fetch_once(connection, self._topic, partition, at)
            except Unanswered:
                self._cluster.hang_up()
                await asyncio.sleep(0.3)
                continue
            if code is not ErrorCode.NONE:
                if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._strict:
                    self._notes.broken.append(
                        f"out of range: {name} has read {partition} up to {at}"
                    )
                self._cluster.forget(self._topic, partition)
                await asyncio.sleep(0.3)
                continue
            self._notes.ends.setdefault(partition, []).append(
                Seen(name, asked_s, loop.time(), high)
            )
            for offset, value in records:
                if offset != at:
                    self._notes.broken.append(f"gap: {name} got {partition}/{offset}, not {at}")
                self._notes.read(name, partition, offset, value)
                at = offset + 1


class Watcher:
    """Asks for the end of every partition, again and again."""

    def __init__(self, cluster: Cluster, topic: str, notes: Notes) -> None:
        self._cluster = cluster
        self._topic = topic
        self._notes = notes

    async def run(self, partitions: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._cluster.dice.random())
            partition = self._cluster.dice.randrange(partitions)
            try:
                asked_s = loop.time()
                end = await find_end(self._cluster, self._topic, partition)
            except Unanswered:
                self._cluster.hang_up()
                continue
            if end is not None:
                self._notes.ends.setdefault(partition, []).append(
                    Seen(self._cluster.name, asked_s, loop.time(), end)
                )


async def find_end(cluster: Cluster, topic: str, partition: int) -> int | None:
    """The end of a partition, if the leader can say."""
    connection = await cluster.leader(topic, partition)
    row = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    request = list_offsets.ListOffsetsRequest(
        topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[row])]
    )
    found = (await connection.ask(request)).topics[0].partitions[0]
    if found.error_code:
        cluster.forget(topic, partition)
        return None
    return int(found.offset)


async def read_all(
    cluster: Cluster, topic: str, partitions: int
) -> dict[int, list[tuple[int, bytes]]]:
    """Everything there is, from a world without faults."""
    log: dict[int, list[tuple[int, bytes]]] = {}
    for partition in range(partitions):
        rows = log[partition] = []
        end: int | None = None
        while end is None or len(rows) < end:
            try:
                connection = await cluster.leader(topic, partition)
                if end is None:
                    end = await find_end(cluster, topic, partition)
                at = rows[-1][0] + 1 if rows else 0
                code, _, found = await fetch_once(connection, topic, partition, at, 100)
            except Unanswered:
                cluster.hang_up()
                await asyncio.sleep(0.3)
                continue
            if code is not ErrorCode.NONE:
                cluster.forget(topic, partition)
                await asyncio.sleep(0.3)
            elif not found and end is not None and len(rows) < end:
                break  # it says there is more, and gives nothing: the checker will tell
            rows += found
    return log
