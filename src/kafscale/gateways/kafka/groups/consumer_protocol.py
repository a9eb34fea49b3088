"""Kafka's ConsumerProtocol: what consumers write into JoinGroup and SyncGroup for each other.

Here: the topics that a consumer subscribes to, and the partitions that it is assigned. Both
structures begin with a version of two bytes; later versions only add fields behind.
Next door: who needs this (engine/coordinator/records.py, groups/consumer/mixed.py), the requests
(apis/join_group.py, apis/sync_group.py).

    subscription  v0 topics, user data; v1 owned partitions; v2 generation; v3 rack
    assignment    v0 topics with partitions, user data
"""

import struct
from collections.abc import Sequence
from typing import Final

from kafscale.engine.coordinator.records import MemberDataReader
from kafscale.groups.consumer.member_data import MemberSubscription, TopicNumbers

_CONSUMER: Final = "consumer"
_VERSION_BYTES: Final = 2
_MOST_ENTRIES: Final = 10_000
_OWNED_FROM, _GENERATION_FROM, _RACK_FROM = 1, 2, 3


class ConsumerProtocol(MemberDataReader):
    """Reads the bytes of groups whose protocol type is "consumer"; those of others stay unread."""

    def subscribed_topics(self, protocol_type: str, metadata: bytes) -> Sequence[str] | None:
        """The topics that a consumer reads; None if the bytes do not say it."""
        if protocol_type != _CONSUMER:
            return None
        fields = _Fields(metadata)
        try:
            return [fields.text() for _ in range(fields.count())]
        except (struct.error, ValueError):
            return None

    def assigned_partitions(self, protocol_type: str, assignment: bytes) -> Sequence[TopicNumbers]:
        """Topics and partitions of an assignment; none if the bytes do not say it."""
        if protocol_type != _CONSUMER:
            return ()
        try:
            return _Fields(assignment).topics()
        except (struct.error, ValueError):
            return ()

    def read_subscription(self, metadata: bytes) -> MemberSubscription | None:
        """What a member subscribes to and reads now; None if the bytes do not say it."""
        fields = _Fields(metadata)
        try:
            version = fields.version()
            topics = frozenset(fields.text() for _ in range(fields.count()))
            fields.skip_bytes()
            owned = fields.topics() if version >= _OWNED_FROM else []
            if version >= _GENERATION_FROM:
                fields.int32()
            rack = fields.text() if version >= _RACK_FROM else ""
        except (struct.error, ValueError):
            return None
        return MemberSubscription(topics, owned, rack or None)

    def read_assignment(self, assignment: bytes) -> Sequence[TopicNumbers] | None:
        """What a member is assigned; None if its leader tells it more than partitions."""
        if not assignment:
            return ()
        fields = _Fields(assignment)
        try:
            rows = fields.topics()
            return rows if fields.skip_bytes() == 0 else None
        except (struct.error, ValueError):
            return None

    def write_assignment(self, rows: Sequence[TopicNumbers]) -> bytes:
        """An assignment of version 0, without user data."""
        parts = [struct.pack(">hi", 0, len(rows))]
        for topic, numbers in rows:
            name = topic.encode()
            parts += (struct.pack(">h", len(name)), name)
            parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
        return b"".join((*parts, struct.pack(">i", -1)))


class _Fields:
    """The fields of one structure, one after another. Raises struct.error or ValueError."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._offset = _VERSION_BYTES

    def version(self) -> int:
        (value,) = struct.unpack_from(">h", self._raw)
        return int(value)

    def int32(self) -> int:
        (value,) = struct.unpack_from(">i", self._raw, self._offset)
        self._offset += 4
        return int(value)

    def count(self) -> int:
        value = self.int32()
        if not 0 <= value <= _MOST_ENTRIES:
            raise ValueError(value)
        return value

    def text(self) -> str:
        """A string; an empty one stands for null."""
        (size,) = struct.unpack_from(">h", self._raw, self._offset)
        start = self._offset + 2
        self._offset = start + max(size, 0)
        self._require(size)
        return self._raw[start : self._offset].decode()

    def skip_bytes(self) -> int:
        """The size of bytes that others understand."""
        size = self.int32()
        self._offset += max(size, 0)
        self._require(size)
        return max(size, 0)

    def topics(self) -> list[TopicNumbers]:
        return [
            (self.text(), [self.int32() for _ in range(self.count())]) for _ in range(self.count())
        ]

    def _require(self, size: int) -> None:
        if self._offset > len(self._raw):
            raise ValueError(size)
