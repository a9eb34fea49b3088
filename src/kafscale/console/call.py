"""A request of the API once it has come through the wall, and what a page may use.

Here: plain data. Next door: who makes calls (app.py), who answers them (pages/).
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from kafscale.console.activity import ActivityLog
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.store_shapes import NewSnapshot, SnapshotRow
from kafscale.console.audit_topic import AuditTopic
from kafscale.console.bucket import ConsoleBucket, Remembered
from kafscale.console.cluster import Cluster
from kafscale.console.entry.gate import LoggedIn
from kafscale.console.plans import ResetPlans
from kafscale.console.records.schemas import Schemas
from kafscale.console.routes import Query, Route
from kafscale.console.watch.watcher import ClusterWatcher
from kafscale.model.clock import Clock
from kafscale.settings.sections import PricesSection
from kafscale.tasks import Tasks

if TYPE_CHECKING:  # imported when a page asks: codecs of records take 5 MB
    from kafscale.console.records.as_of import SnapshotPartition


class SnapshotPort(Protocol):
    """Snapshots of topics; made by another room and handed in."""

    def find_all(self) -> list[SnapshotRow]:
        """All of them. May take long: call it in a thread."""
        ...

    def take(self, wanted: NewSnapshot) -> SnapshotRow:
        """Take one."""
        ...

    def release(self, name: str) -> None:
        """Give one up."""
        ...

    def partitions_of(self, name: str, topic: str) -> "list[SnapshotPartition]":
        """What a snapshot holds of a topic; refused if it does not hold it."""
        ...


class OwnCommands(Protocol):
    """Commands of Kafscale, run as children; made by another room and handed in."""

    def lines(self, words: tuple[str, ...], within_s: float) -> AsyncIterator[bytes | None]:
        """Run one on the bucket and yield what it prints; None: nothing for a while."""
        ...


@dataclass
class Services:
    """What pages are made of."""

    clock: Clock
    version: str
    cluster: Cluster
    watcher: ClusterWatcher
    activity: ActivityLog
    prices: PricesSection
    audit: AuditTopic | None = None  # where a copy of the activity goes
    bucket: ConsoleBucket | None = None
    no_bucket: str = ""  # why there is none
    snapshots: SnapshotPort | None = None
    commands: OwnCommands | None = None
    schemas: Schemas | None = None  # of records that name theirs
    has_sql: bool = False
    prometheus: str = ""  # its address; empty: there is none
    is_querying: bool = False  # a query of SQL runs
    running_job: str = ""  # of the pipeline, started here
    background: Tasks = field(default_factory=Tasks)
    read_only: bool = False
    show_values: bool = True
    flush_interval_ms: int = 0
    started_s: float = 0.0
    own_key: bytes = b""  # by which plans and cursors of this process are told from others
    searches: dict[bytes, int] = field(default_factory=dict)  # running, by session
    plans: ResetPlans = field(default_factory=ResetPlans)
    ranges: Remembered = field(init=False)  # offsets of partitions that no broker has open

    def __post_init__(self) -> None:
        self.ranges = Remembered(self.clock)

    def need_bucket(self) -> ConsoleBucket:
        """The bucket, or a refusal that says why there is none."""
        if self.bucket is None:
            raise ApiRefusal("no_bucket", self.no_bucket)
        return self.bucket

    def sign(self, *parts: str) -> str:
        """A mark that only this process can make for these parts."""
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self.own_key, digest_size=16).hexdigest()


@dataclass
class ApiCall:
    """One request."""

    route: Route
    services: Services
    path: Mapping[str, str]
    query: Any  # of the route's type of query
    body: Any  # of the route's type of body
    session: LoggedIn | None
    address: str
    request_id: str

    @property
    def topic(self) -> str:
        """The topic that the path names."""
        return self.path["topic"]


@dataclass
class Download:
    """Bytes as they are, to be saved to a file."""

    body: bytes
    filename: str


# The name of an event and what it says; None: nothing happened for a while.
StreamEvent = tuple[str, Struct] | None
EventStream = AsyncIterator[StreamEvent]
PageHandler = Callable[[ApiCall], Awaitable[Any]]
Handlers = Mapping[str, PageHandler]

__all__ = [
    "ApiCall",
    "Download",
    "EventStream",
    "Handlers",
    "OwnCommands",
    "PageHandler",
    "Query",
    "Services",
    "SnapshotPort",
    "StreamEvent",
]
