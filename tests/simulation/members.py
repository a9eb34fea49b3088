"""Simulated members of a consumer group: they join, share the partitions, read, commit.

In this room: what a consumer does about its group. Partitions are dealt out in turn.
Next door: connections (cluster.py), reading (readers.py), the words of a history
(tests/faults/history.py).
"""

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from tests.faults.history import OK, UNKNOWN, Commit, Fetched, History
from tests.simulation.cluster import Cluster, Connection, Unanswered
from tests.simulation.places import Place
from tests.simulation.readers import fetch_once

GROUP = "shoppers"
SESSION_MS = 6_000
REBALANCE_MS = 6_000
_AT_ONCE = 4  # records that are worked on before their offset is committed


class Rejoin(Exception):
    """The member must join again."""


class Member:
    """One member; `run` goes on until it is cancelled."""

    def __init__(self, cluster: Cluster, places: Sequence[Place], history: History) -> None:
        self._cluster = cluster
        self._places = places
        self._history = history
        self._member_id = ""
        self._generation = -1
        self._coordinates: tuple[str, int] | None = None

    async def run(self) -> None:
        while True:
            try:
                mine = await self._join()
                await self._work(mine)
            except Rejoin:
                await asyncio.sleep(0.1)
            except Unanswered:
                self._coordinates = None
                self._cluster.hang_up()
                await asyncio.sleep(0.3)

    async def _coordinator(self) -> Connection:
        if self._coordinates is None:
            connection = await self._cluster.any()
            found = await connection.ask(find_coordinator.FindCoordinatorRequest(key=GROUP))
            if found.error_code:
                raise Unanswered("no coordinator")
            self._coordinates = (found.host, found.port)
        return await self._cluster.to(self._coordinates)

    def _check(self, code: int) -> None:
        """Raise what the member has to do about an error."""
        match ErrorCode(code):
            case ErrorCode.NONE:
                return
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
                raise Rejoin
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.REBALANCE_IN_PROGRESS:
                raise Rejoin
            case other:
                raise Unanswered(other.name)

    async def _join(self) -> list[Place]:
        connection = await self._coordinator()
        protocol = join_group.JoinGroupRequestProtocol(
            name="in turn", metadata=_subscription(self._places)
        )
        request = join_group.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        told = await connection.ask(request, timeout_s=REBALANCE_MS / 1000 + 10)
        if told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = told.member_id
            raise Rejoin
        self._check(told.error_code)
        self._member_id, self._generation = told.member_id, told.generation_id
        return await self._sync(connection, told)

    async def _sync(self, connection: Connection, joined: Any) -> list[Place]:
        shares: list[sync_group.SyncGroupRequestAssignment] = []
        if joined.leader == self._member_id:
            ids = sorted(row.member_id for row in joined.members)
            for at, member_id in enumerate(ids):
                share = self._places[at :: len(ids)]
                shares.append(
                    sync_group.SyncGroupRequestAssignment(
                        member_id=member_id, assignment=_assignment(share)
                    )
                )
        request = sync_group.SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=shares,
        )
        told = await connection.ask(request, timeout_s=REBALANCE_MS / 1000 + 10)
        self._check(told.error_code)
        mine = _rows_in(bytes(told.assignment))
        return [place for place in self._places if (place.topic, place.partition) in mine]

    async def _work(self, mine: list[Place]) -> None:
        """Read and commit until the group changes."""
        at = {place: await self._resume(place) for place in mine}
        loop = asyncio.get_running_loop()
        beaten_s = loop.time()
        while True:
            await asyncio.sleep(0.1 + self._cluster.dice.random())
            for place in mine:
                leader = await self._cluster.leader(place)
                code, _, found = await fetch_once(leader, place, at[place], 50)
                if code is not ErrorCode.NONE:
                    self._cluster.forget(place)
                elif found:
                    at[place] = found[:_AT_ONCE][-1].offset + 1
                    await self._commit(place, at[place])
            if loop.time() - beaten_s > 1.0:
                beaten_s = loop.time()
                await self._beat()

    async def _beat(self) -> None:
        connection = await self._coordinator()
        request = heartbeat.HeartbeatRequest(
            group_id=GROUP, generation_id=self._generation, member_id=self._member_id
        )
        self._check((await connection.ask(request)).error_code)

    async def _resume(self, place: Place) -> int:
        """Where the group has come to."""
        connection = await self._coordinator()
        topic = offset_fetch.OffsetFetchRequestTopic(
            name=place.topic, partition_indexes=[place.partition]
        )
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        request = offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=[topic])
        told = await connection.ask(request)
        self._check(told.error_code)
        row = told.topics[0].partitions[0]
        self._check(row.error_code)
        offset = int(row.committed_offset)
        self._history.fetched.append(Fetched(GROUP, place.number, offset, asked_s, loop.time()))
        return max(0, offset)

    async def resume_at_last(self, place: Place) -> int:
        """The same, however long it takes."""
        while True:
            try:
                return await self._resume(place)
            except (Rejoin, Unanswered):
                self._coordinates = None
                await asyncio.sleep(0.3)

    async def _commit(self, place: Place, offset: int) -> None:
        row = offset_commit.OffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset
        )
        request = offset_commit.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[offset_commit.OffsetCommitRequestTopic(name=place.topic, partitions=[row])],
        )
        loop = asyncio.get_running_loop()
        began_s, outcome = loop.time(), UNKNOWN
        try:
            connection = await self._coordinator()
            told = await connection.ask(request)
            code = told.topics[0].partitions[0].error_code
            outcome = OK if code == 0 else UNKNOWN
            self._check(code)
        finally:
            self._history.commits.append(
                Commit(GROUP, place.number, offset, began_s, loop.time(), outcome)
            )

    async def leave(self) -> None:
        """Tell the group."""
        if self._member_id:
            connection = await self._coordinator()
            request = leave_group.LeaveGroupRequest(group_id=GROUP, member_id=self._member_id)
            self._check((await connection.ask(request)).error_code)


def _subscription(places: Sequence[Place]) -> bytes:
    names = [topic.encode() for topic in dict.fromkeys(place.topic for place in places)]
    rows = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", 0, len(names)) + rows + struct.pack(">i", -1)


def _assignment(share: Sequence[Place]) -> bytes:
    rows = b""
    topics = list(dict.fromkeys(place.topic for place in share))
    for topic in topics:
        name = topic.encode()
        mine = [place.partition for place in share if place.topic == topic]
        rows += (
            struct.pack(">h", len(name)) + name + struct.pack(f">i{len(mine)}i", len(mine), *mine)
        )
    return struct.pack(">hi", 0, len(topics)) + rows + struct.pack(">i", -1)


def _rows_in(assignment: bytes) -> list[tuple[str, int]]:
    """Topics and partitions."""
    if not assignment:
        return []
    found: list[tuple[str, int]] = []
    (topics,) = struct.unpack_from(">i", assignment, 2)
    at = 6
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", assignment, at)
        topic = assignment[at + 2 : at + 2 + size].decode()
        (count,) = struct.unpack_from(">i", assignment, at + 2 + size)
        at += 6 + size
        found += [(topic, row) for row in struct.unpack_from(f">{count}i", assignment, at)]
        at += 4 * count
    return found
