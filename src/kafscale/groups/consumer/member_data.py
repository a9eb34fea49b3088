"""What members of the classic protocol write for each other, as a consumer group needs it.

Here: the values, and who reads and writes the bytes. Next door: the bytes, which only the door of
these clients knows (gateways/kafka/groups/consumer_protocol.py), the members (mixed.py).
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

TopicNumbers = tuple[str, list[int]]  # a topic's name and the numbers of its partitions


class MemberSubscription(NamedTuple):
    """What a member says of itself when it joins."""

    topics: frozenset[str]
    owned: Sequence[TopicNumbers] = ()  # what it reads now; it may go on reading it
    rack: str | None = None


class MemberCodec(Protocol):
    """Reads and writes the bytes of members of the classic protocol."""

    def read_subscription(self, metadata: bytes) -> MemberSubscription | None:
        """What a member subscribes to; None if the bytes do not say it."""

    def read_assignment(self, assignment: bytes) -> Sequence[TopicNumbers] | None:
        """What a member is assigned; None if the bytes do not say it, or say more than that."""

    def write_assignment(self, rows: Sequence[TopicNumbers]) -> bytes:
        """The bytes that tell a member what it is assigned."""


class UnreadMemberData(MemberCodec):
    """For groups whose members all speak the newer protocol."""

    def read_subscription(self, metadata: bytes) -> MemberSubscription | None:
        """Nothing is read."""
        return None

    def read_assignment(self, assignment: bytes) -> Sequence[TopicNumbers] | None:
        """Nothing is read."""
        return None

    def write_assignment(self, rows: Sequence[TopicNumbers]) -> bytes:
        """Nothing is written."""
        return b""
