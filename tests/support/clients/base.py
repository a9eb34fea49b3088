"""What the tests ask of a client, of any project.

In this room: records as the test sees them and the questions every client is asked.
Next door: one file per client. Each leaves its client at default settings but for the
bootstrap address and what the question itself needs (a codec, a starting offset).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ANSWER_WITHIN_S: Final = 120.0

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """What is written. No timestamp: the client takes its own clock."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What is read."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Cluster:
    cluster_id: str
    controller: int
    brokers: tuple[int, ...]


class ClientError(Exception):
    """The client refused or failed, in its own words."""


class Member:
    """A member of a group: it does what it must while it is polled, and commits by itself."""

    def poll(self) -> list[Stored]:
        """What has come within a fraction of a second."""
        raise NotImplementedError

    def partitions(self) -> set[int]:
        """What it is assigned of its topic."""
        raise NotImplementedError

    def leave(self) -> None:
        """Commit, leave, close."""
        raise NotImplementedError


class Client:
    """A client under test. What it cannot do, by nature or in these tests, stands in `lacks`.

    `title` and `version` are how people know it. Of the columns of docs/clients.md, `absent` names
    those it has nothing for, and codecs, with the reason; `departures` those that need more than
    its defaults, with what was set.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[str]
    lacks: ClassVar[frozenset[str]] = frozenset()
    absent: ClassVar[Mapping[str, str]] = {}
    departures: ClassVar[Mapping[str, str]] = {}
    default_codec: ClassVar[str] = "none"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @property
    def codecs(self) -> list[str]:
        return [codec for codec in CODECS if codec not in self.absent]

    def close(self) -> None:
        """Let go of processes and connections that outlive a question."""

    def found_version(self) -> str:
        """The version that runs here, where it is not ours to choose."""
        return self.version

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        """Write in order; the offset each record was acknowledged at."""
        raise NotImplementedError

    def produce_idempotently(self, topic: str, records: list[Record]) -> list[int]:
        """Write as a producer with an id, which is the default where it stands in no departure."""
        if "idempotence" in self.departures:
            raise NotImplementedError
        return self.produce(topic, records)

    def consume(self, topic: str, partitions: list[int], count: int) -> list[Stored]:
        """Read `count` records of these partitions from their beginning."""
        raise NotImplementedError

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Commit for a group without being a member of it."""
        raise NotImplementedError

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """What the group has committed; None when it has not."""
        raise NotImplementedError

    def subscribe(self, group: str, topic: str) -> Member:
        """Become a member that reads from the beginning where no offset is committed."""
        raise NotImplementedError

    def create_topic(self, topic: str, partitions: int) -> None:
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        raise NotImplementedError

    def list_topics(self) -> dict[str, int]:
        """Names and partition counts."""
        raise NotImplementedError

    def create_partitions(self, topic: str, total: int) -> None:
        raise NotImplementedError

    def configs(self, topic: str) -> dict[str, str]:
        """The settings that were chosen for this very topic."""
        raise NotImplementedError

    def alter_config(self, topic: str, operation: str, name: str, value: str | None) -> None:
        """Change one setting: operation is SET, DELETE, APPEND or SUBTRACT."""
        raise NotImplementedError

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        """Give the topic these settings and no others."""
        raise NotImplementedError

    def broker_config(self, broker: int, name: str) -> str:
        """One of the broker's own settings."""
        raise NotImplementedError

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete what lies before an offset; the new log start."""
        raise NotImplementedError

    def earliest(self, topic: str, partition: int) -> int:
        raise NotImplementedError

    def latest(self, topic: str, partition: int) -> int:
        raise NotImplementedError

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first offset with this timestamp or a later one; None when there is none."""
        raise NotImplementedError

    def offset_of_max_timestamp(self, topic: str, partition: int) -> int:
        raise NotImplementedError

    def cluster(self) -> Cluster:
        raise NotImplementedError

    def begin_transaction(self, transactional_id: str) -> None:
        """Up to the point where a transaction could be begun; ClientError when refused."""
        raise NotImplementedError
