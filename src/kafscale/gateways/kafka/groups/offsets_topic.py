"""The topic `__consumer_offsets`: what groups have committed, as Kafka's own brokers write it.

Here: records of committed offsets in Kafka's format, and the task that writes them. The metadata
store is the truth; this topic is a copy of it for tools that read it. The owner of its one
partition writes what the store has when it begins, and then every change. Clients only read it.
Next door: committed offsets (engine/coordinator/offsets.py), who may write where (apis/produce.py).

Offsets of this very topic are left out: a consumer that commits how far it has read here would
otherwise never come to an end.
"""

import asyncio
import contextlib
import struct
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import structlog

from kafscale.engine.coordinator.offsets import OffsetNews
from kafscale.engine.engine import Engine
from kafscale.engine.topics.topic import Topic
from kafscale.model.errors import KafscaleError, NotTheOwner
from kafscale.model.names import CONSUMER_OFFSETS
from kafscale.records.record import Record, build_batch

logger = structlog.get_logger()

_KEY_VERSION: Final = 1
_VALUE_VERSION: Final = 3
_LOOK_EVERY_S: Final = 1.0  # whether this broker owns the partition
_AT_ONCE: Final = 500  # records in a batch


def offset_key(news: OffsetNews) -> bytes:
    """The key of a record: group, topic, partition."""
    group, topic = _string(news.group_id), _string(news.topic)
    return struct.pack(">h", _KEY_VERSION) + group + topic + struct.pack(">i", news.partition)


def offset_value(news: OffsetNews) -> bytes | None:
    """The value of a record; None if the offset is gone."""
    committed = news.committed
    if committed is None:
        return None
    when = _unix_ms(committed.committed_at)
    head = struct.pack(">hqi", _VALUE_VERSION, committed.offset, committed.leader_epoch)
    return head + _string(committed.metadata) + struct.pack(">q", when)


def _string(text: str) -> bytes:
    raw = text.encode(errors="surrogateescape")[:0x7FFF]
    return struct.pack(">h", len(raw)) + raw


def _unix_ms(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return -1


class OffsetsTopic:
    """Keeps the topic up to date."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run(self) -> None:
        """Write while this broker owns the partition; until cancelled."""
        while True:
            try:
                topic = await self._find_or_create()
                if topic is not None and self._is_owner(topic):
                    await self._follow(topic)
            except KafscaleError as problem:
                logger.warning("offsets_topic_waits", error=str(problem))
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _find_or_create(self) -> Topic | None:
        topics, cluster = self._engine.topics, self._engine.cluster
        topic = topics.find(CONSUMER_OFFSETS)
        if topic is None and cluster.has_joined and cluster.is_controller:
            topic = await topics.create_own(CONSUMER_OFFSETS, {"cleanup.policy": "compact"})
        return topic

    def _is_owner(self, topic: Topic) -> bool:
        leader = self._engine.cluster.leader_of(topic.folder(0))
        is_there = self._engine.topics.find(CONSUMER_OFFSETS) is topic
        return is_there and leader == self._engine.identity.broker_id

    async def _follow(self, topic: Topic) -> None:
        await self._engine.partitions.open(topic, 0)
        async with contextlib.aclosing(self._engine.offsets.follow()) as following:
            async for news in following:
                if not self._is_owner(topic):
                    return
                rows = [one for one in news if one.topic != CONSUMER_OFFSETS]
                for begin in range(0, len(rows), _AT_ONCE):
                    await self._write(topic, rows[begin : begin + _AT_ONCE])

    async def _write(self, topic: Topic, news: Sequence[OffsetNews]) -> None:
        now_ms = self._engine.clock.now_ms()
        records = [
            Record(number, now_ms, offset_key(one), offset_value(one))
            for number, one in enumerate(news)
        ]
        batch = memoryview(bytearray(build_batch(records, base_offset=0)))
        stored = self._engine.partitions.append(
            topic, 0, batch, acknowledged=False, is_checked=True
        )
        committed = stored.appended.committed
        if committed is not None and await committed is not None:
            raise NotTheOwner("what was written is not committed")
