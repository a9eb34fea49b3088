"""What the API takes and gives of the bucket: objects, the store, cost, snapshots, jobs.

Next door: topics, groups, the fleet (shapes.py), which route takes what (console/routes.py).
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from kafscale.console.answers.shapes import (
    ApiShape,
    Digits,
    LayoutName,
    StatePoint,
    StoreStateName,
    Unknown,
)


class ObjectRow(ApiShape, kw_only=True):
    """An object of a log."""

    kind: str  # "flush" or "history"
    key: str
    first: Digits
    last: Digits
    records: int
    bytes: int
    written_ms: int | None
    lanes: int


class ObjectList(ApiShape, kw_only=True):
    """The objects of one log of a topic."""

    logs: list[str]
    log: str
    layout: LayoutName
    items: list[ObjectRow]
    after: str | None
    total: int
    bytes: int
    leftovers: int
    leftover_bytes: int
    held_until_ms: int | None  # by a snapshot that needs leftovers; null: by none
    problems: list[str]
    as_of_ms: int


class LaneRow(ApiShape, kw_only=True):
    """What a lane has in a segment."""

    lane: int
    first: Digits
    last: Digits
    records: int
    start: int
    bytes: int
    newest_ms: Digits | None


class BatchRow(ApiShape, kw_only=True):
    """A record batch in a segment."""

    lane: int
    byte: int
    first: Digits
    last: Digits
    records: int
    bytes: int
    codec: str
    newest_ms: Digits | None
    producer_id: Digits | None
    producer_epoch: int | None
    sequence: int | None
    transactional: bool
    control: bool
    crc_ok: bool


class IndexEntry(ApiShape, kw_only=True):
    """An entry of a segment's index."""

    lane: int
    offset: Digits
    byte: int


class ObjectView(ApiShape, kw_only=True):
    """One object: a segment, an index, or a document as it is."""

    key: str
    kind: Literal["segment", "index", "manifest", "descriptor", "checkpoint", "document"]
    bytes: int
    facts: dict[str, str | int | None]
    lanes: list[LaneRow] = field(default_factory=list)
    batches: list[BatchRow] = field(default_factory=list)
    batches_total: int = 0
    after: str | None = None
    index: list[IndexEntry] = field(default_factory=list)
    document: Any = None


class OperationRow(ApiShape, kw_only=True):
    """An operation of the store, as brokers feel it."""

    operation: str
    per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    errors_per_s: float | None
    total: int


class SharedLogRow(ApiShape, kw_only=True):
    """A log that topics share."""

    log: str
    live_bytes: int | None
    dead_bytes: int | None
    lanes: int | None


class OwnRequests(ApiShape, kw_only=True):
    """What this console itself asked of the bucket since it started."""

    requests: dict[str, int]  # by operation
    bytes: int
    money: float


class StorePage(ApiShape, kw_only=True):
    """The object store."""

    as_of_ms: int
    place: str | None
    namespace: str | None
    state: StoreStateName | None
    strip: list[StatePoint]
    operations: list[OperationRow]
    checkpoint_age_s: float | None
    shared_logs: list[SharedLogRow]
    own: OwnRequests
    unknown: Unknown = field(default_factory=dict)


class CostRow(ApiShape, kw_only=True):
    """What a topic uses in a day, and what that costs; `@shared`, `@store`, `@console`, too."""

    topic: str
    requests: dict[str, float]  # a day, by operation
    written_bytes: float
    read_bytes: float
    stored_bytes: int | None
    day: float
    month: float
    requests_month: float
    transfer_month: float
    storage_month: float | None


class ShareRow(ApiShape, kw_only=True):
    """A topic's part of the logs that topics share, by its bytes."""

    topic: str
    stored_bytes: int
    share: float
    month: float


class CostPage(ApiShape, kw_only=True):
    """What everything costs."""

    as_of_ms: int
    currency: str
    window: Literal["since start", "last hour"]
    window_s: float | None  # the shortest of all brokers
    prices: dict[str, float]
    items: list[CostRow]
    total: CostRow
    shared: list[ShareRow]
    advice: list["Advice"]
    unknown: Unknown = field(default_factory=dict)


class Advice(ApiShape, kw_only=True):
    """What would save money, and how much."""

    kind: Literal["share_topics", "flush_less_often", "expire_sooner"]
    text: str
    saving_month: float
    topics: list[str]


class WhatIf(ApiShape, kw_only=True):
    """Another flush interval, and topics in shared logs."""

    flush_interval_ms: Annotated[int, Meta(ge=1, le=3_600_000)] | None = None
    shared: list[str] | None = None  # topics; an empty list: none; null: as it is
    share_all_small: bool = False


class WhatIfRow(ApiShape, kw_only=True):
    """A topic with other settings."""

    topic: str
    month: float
    what_if_month: float


class WhatIfAnswer(ApiShape, kw_only=True):
    """The same month with other settings, by arithmetic."""

    currency: str
    month: float
    what_if_month: float
    items: list[WhatIfRow]
    assumptions: list[str]


class SnapshotRow(ApiShape, kw_only=True):
    """A snapshot."""

    name: str
    taken_ms: int
    expires_ms: int
    expired: bool
    topics: list[str]
    records: int
    bytes: int | None
    month: float | None


class SnapshotList(ApiShape, kw_only=True):
    """Snapshots."""

    items: list[SnapshotRow]
    unknown: Unknown = field(default_factory=dict)


class NewSnapshot(ApiShape, kw_only=True):
    """A snapshot to take."""

    name: Annotated[str, Meta(max_length=249)]
    topics: list[Annotated[str, Meta(max_length=300)]] = field(default_factory=list)  # none: all
    keep_s: Annotated[int, Meta(ge=60, le=3_153_600_000)] = 7 * 86_400


class JobSummary(ApiShape, kw_only=True):
    """The last run of a job of the pipeline."""

    id: str
    job: str
    started_ms: int
    ended_ms: int | None
    state: Literal["running", "done", "failed", "lost"]
    exit_code: int | None
    facts: dict[str, str | int | float | bool | None]


class JobList(ApiShape, kw_only=True):
    """Runs of jobs, the newest first."""

    items: list[JobSummary]
    unknown: Unknown = field(default_factory=dict)


class JobPage(ApiShape, kw_only=True):
    """One run with its report."""

    run: JobSummary
    report: Any


class JobRequest(ApiShape, kw_only=True):
    """A job to start; no topics: all of them."""

    job: Literal["audit", "stats", "compact", "retain"]
    topics: list[Annotated[str, Meta(max_length=300)]] = field(default_factory=list)


class JobStarted(ApiShape, kw_only=True):
    """A job that was started."""

    job: str
    started_ms: int


class PipelineTable(ApiShape, kw_only=True):
    """A table that a topic declares."""

    topic: str
    format: str
    mode: str
    state: str
    lag: int | None  # records that are no rows yet
    age_s: float | None  # of the oldest of them
    promised_s: float | None
    last_run_s_ago: int | None
    last_rows: int | None
    money_day: float | None
    table: str | None


class PipelineTables(ApiShape, kw_only=True):
    """Tables that topics declare, and who keeps them up to date."""

    items: list[PipelineTable]
    runners: int | None
    notes: list[str]
    as_of_ms: int
    unknown: Unknown = field(default_factory=dict)


class SqlRequest(ApiShape, kw_only=True):
    """One SELECT over topics."""

    text: Annotated[str, Meta(min_length=1, max_length=10_000)]


class SqlColumns(ApiShape, kw_only=True):
    """Event `columns` of a stream."""

    columns: list[str]


class SqlRows(ApiShape, kw_only=True):
    """Event `rows` of a stream."""

    rows: list[list[str | None]]


class SqlEnd(ApiShape, kw_only=True):
    """Event `end` of a stream; cut: there may be more rows."""

    seconds: float
    rows: int
    cut: bool


class SubscriptionSummary(ApiShape, kw_only=True):
    """A Pulsar subscription or a Fluvio consumer of a partition."""

    name: str
    door: Literal["pulsar", "fluvio"]
    topic: str
    partition: int
    committed: Digits | None
    end: Digits | None
    lag: int | None


class SubscriptionList(ApiShape, kw_only=True):
    """Subscriptions and consumers of other doors."""

    items: list[SubscriptionSummary]


class TransactionRow(ApiShape, kw_only=True):
    """A transactional id; the rest is of a transaction that runs."""

    transactional_id: str
    producer_id: Digits
    state: str
    coordinator: int
    started_ms: int | None
    timeout_ms: int | None
    topics: list[str]
    partitions: int


class TransactionList(ApiShape, kw_only=True):
    """Transactions, those that run first."""

    items: list[TransactionRow]
    as_of_ms: int
