"""Kafka's ConsumerProtocol: what consumers write into JoinGroup and SyncGroup for each other.

Here: the topics that a consumer subscribes to, and the partitions that it is assigned. Both
structures begin with a version of two bytes; later versions only add fields behind.
Next door: who needs this (engine/coordinator/records.py), the requests (apis/join_group.py,
apis/sync_group.py).
"""

import struct
from collections.abc import Sequence
from typing import Final

from kafscale.engine.coordinator.records import MemberDataReader

_CONSUMER: Final = "consumer"
_VERSION_BYTES: Final = 2
_MOST_ENTRIES: Final = 10_000


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

    def assigned_partitions(
        self, protocol_type: str, assignment: bytes
    ) -> Sequence[tuple[str, list[int]]]:
        """Topics and partitions of an assignment; none if the bytes do not say it."""
        if protocol_type != _CONSUMER:
            return ()
        fields = _Fields(assignment)
        try:
            return [
                (fields.text(), [fields.int32() for _ in range(fields.count())])
                for _ in range(fields.count())
            ]
        except (struct.error, ValueError):
            return ()


class _Fields:
    """The fields of one structure, one after another. Raises struct.error or ValueError."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._offset = _VERSION_BYTES

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
        (size,) = struct.unpack_from(">h", self._raw, self._offset)
        start = self._offset + 2
        self._offset = start + max(size, 0)
        if self._offset > len(self._raw):
            raise ValueError(size)
        return self._raw[start : self._offset].decode()
