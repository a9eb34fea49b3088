"""What the console's API takes and gives, as structs: shared things, topics, groups, the fleet.

Here: names and types alone; `python -m kafscale.console.openapi` makes the page's types of them.
Next door: records (record_shapes.py), objects, cost and what else lies in the bucket
(store_shapes.py), which route takes what (console/routes.py). A number that is not known is
null; `unknown` says why.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

# Offsets, times of records and producer ids: JavaScript would round them as numbers.
Digits = Annotated[str, Meta(pattern=r"^-?[0-9]{1,19}$")]
Unknown = dict[str, str]  # the name of a field that is null, and why
StoreStateName = Literal["healthy", "degraded", "unavailable"]
LayoutName = Literal["ordinary", "virtual", "shared"]
# Of `store_state`, 0 is healthy, 1 degraded, 2 unavailable.
SeriesName = Literal[
    "requests_per_s",  # to the store; label: operation
    "latency_p50_ms",  # of the store; label: operation
    "latency_p99_ms",
    "store_state",
    "in_bytes_per_s",  # of all topics together
    "out_bytes_per_s",
    "in_records_per_s",
    "topic_puts_per_s",  # label: topic
    "topic_in_bytes_per_s",
    "topic_out_bytes_per_s",
    "topic_in_records_per_s",
    "group_lag",  # label: group
    "group_lag_s",
    "broker_cpu",  # label: broker
    "broker_memory_bytes",
    "broker_connections",
]


class ApiShape(Struct, kw_only=True, forbid_unknown_fields=True):
    """What every struct of the API has in common."""


class ErrorFacts(ApiShape, kw_only=True):
    """Why a request was refused."""

    code: str
    message: str
    field: str | None = None
    retry: bool = False  # whether the same request may work later
    request_id: str = ""
    kafka_code: int | None = None


class ErrorAnswer(ApiShape, kw_only=True):
    """The body of every refusal."""

    error: ErrorFacts


class SessionFacts(ApiShape, kw_only=True):
    """Who is asking; without a login, all from `read_only` on is null."""

    enabled: bool  # both variables are set
    authenticated: bool
    version: str
    requires: list[str]  # variables that must be set, while the console is disabled
    username: str | None = None
    read_only: bool | None = None
    values_hidden: bool | None = None
    features: list[str] | None = None  # what brokers have: "acls", "transactions", ...
    has_bucket: bool | None = None  # false: objects, snapshots and sizes are not known
    has_sql: bool | None = None
    has_weeks: bool | None = None  # there is a Prometheus to ask for more than a day
    store: StoreStateName | None = None  # null with a login: no broker says
    as_of_ms: int | None = None  # when brokers were looked at last


class LoginRequest(ApiShape, kw_only=True):
    """What the login form sends."""

    username: Annotated[str, Meta(max_length=1024)]
    password: Annotated[str, Meta(max_length=1024)]


class StatePoint(ApiShape, kw_only=True):
    """The state of the store from this moment on; null: it was not known."""

    at_ms: int
    state: StoreStateName | None


class Finding(ApiShape, kw_only=True):
    """Something worth a look, in words."""

    severity: Literal["error", "warning", "info"]
    kind: str
    text: str
    topic: str | None = None
    group: str | None = None
    broker: int | None = None
    saving_month: float | None = None


class TopicCostRow(ApiShape, kw_only=True):
    """What a topic costs; `is_share`: its part of logs that topics share, by bytes."""

    topic: str
    month: float | None
    is_share: bool = False


class ClusterRates(ApiShape, kw_only=True):
    """What happens in a second, over the last minute."""

    puts_per_s: float | None = None
    gets_per_s: float | None = None
    in_bytes_per_s: float | None = None
    out_bytes_per_s: float | None = None
    in_records_per_s: float | None = None


class GroupSummary(ApiShape, kw_only=True):
    """A consumer group in a list."""

    id: str
    kind: Literal["kafka", "pulsar", "fluvio"]
    state: str
    members: int | None
    lag: int | None  # records
    lag_s: float | None  # how long ago the oldest record that was not read yet was written
    lag_s_is_at_least: bool = False  # it is older than the console's history
    trend_per_s: float | None  # how fast the lag grows; below zero: it shrinks
    catch_up_s: float | None  # null with a trend that does not shrink: never, at this pace
    topics: list[str]
    unknown: Unknown = field(default_factory=dict)


class OverviewPage(ApiShape, kw_only=True):
    """The first page."""

    as_of_ms: int
    store: StoreStateName | None
    store_strip: list[StatePoint]
    put_p99_ms: float | None
    brokers: int
    brokers_ready: int | None
    controller: int | None
    topics: int
    partitions: int
    groups: int | None
    rates: ClusterRates
    currency: str
    cost_month: float | None
    findings: list[Finding]
    expensive_topics: list[TopicCostRow]
    worst_groups: list[GroupSummary]
    unknown: Unknown = field(default_factory=dict)


class TopicSummary(ApiShape, kw_only=True):
    """A topic in a list."""

    name: str
    topic_id: str | None
    internal: bool
    partitions: int
    layout: LayoutName | None
    logs: int | None
    records: int | None
    bytes: int | None
    in_per_s: float | None  # bytes
    out_per_s: float | None
    puts_per_s: float | None
    puts_are_a_share: bool = False
    groups: int | None
    worst_lag: int | None
    worst_lag_s: float | None
    cost_month: float | None
    cost_is_a_share: bool = False
    moving_to: str | None
    unknown: Unknown = field(default_factory=dict)


class TopicList(ApiShape, kw_only=True):
    """A page of topics."""

    items: list[TopicSummary]
    after: str | None
    total: int
    as_of_ms: int


class NewTopicRequest(ApiShape, kw_only=True):
    """A topic to create."""

    name: Annotated[str, Meta(max_length=300)]
    partitions: Annotated[int, Meta(ge=-1, le=1_000_000)] = -1  # -1: as the brokers' setting says
    configs: dict[str, str] = field(default_factory=dict)
    check_only: bool = False


class NewTopicAnswer(ApiShape, kw_only=True):
    """A topic that was created, or could be."""

    name: str
    created: bool


class TopicPatch(ApiShape, kw_only=True):
    """More partitions."""

    partitions: Annotated[int, Meta(ge=1, le=1_000_000)]


class Confirmation(ApiShape, kw_only=True):
    """A dangerous change: the name of what it concerns, typed."""

    confirm: Annotated[str, Meta(max_length=1024)]


class TopicConfigRow(ApiShape, kw_only=True):
    """A setting of a topic."""

    name: str
    value: str | None
    default: str | None
    source: Literal["topic", "broker", "default", "other"]
    type: str
    doc: str
    read_only: bool
    sensitive: bool


class TopicConfigs(ApiShape, kw_only=True):
    """All settings of a topic."""

    items: list[TopicConfigRow]


class ConfigsPatch(ApiShape, kw_only=True):
    """Settings to change, and settings to reset to their default."""

    set: dict[str, str] = field(default_factory=dict)
    delete: list[str] = field(default_factory=list)


class ConfigsAnswer(ApiShape, kw_only=True):
    """What became of it; `moving_to`: the topic is on its way to another layout."""

    moving_to: str | None


class PartitionRow(ApiShape, kw_only=True):
    """A partition of a topic."""

    partition: int
    leader: int | None
    log: str | None
    lane: int | None
    earliest: Digits | None
    latest: Digits | None
    records: int | None
    objects: int | None
    bytes: int | None


class PartitionList(ApiShape, kw_only=True):
    """The partitions of a topic."""

    items: list[PartitionRow]
    after: str | None
    total: int
    as_of_ms: int
    unknown: Unknown = field(default_factory=dict)


class GroupList(ApiShape, kw_only=True):
    """A page of groups."""

    items: list[GroupSummary]
    after: str | None
    total: int
    as_of_ms: int


class GroupMember(ApiShape, kw_only=True):
    """A member of a group."""

    member: str
    instance: str | None
    client: str
    host: str
    partitions: int


class GroupPartitionRow(ApiShape, kw_only=True):
    """A partition that a group reads or has committed."""

    topic: str
    partition: int
    committed: Digits | None
    end: Digits | None
    lag: int | None
    lag_s: float | None
    lag_s_is_at_least: bool = False
    member: str | None
    client: str | None
    host: str | None


class GroupPage(ApiShape, kw_only=True):
    """A group with all that is known of it."""

    id: str
    kind: Literal["kafka", "pulsar", "fluvio"]
    state: str
    assignor: str
    coordinator: int | None
    lag: int | None
    lag_s: float | None
    lag_s_is_at_least: bool = False
    trend_per_s: float | None
    catch_up_s: float | None
    members: list[GroupMember]
    partitions: list[GroupPartitionRow]
    as_of_ms: int
    unknown: Unknown = field(default_factory=dict)


class ResetRequest(ApiShape, kw_only=True):
    """Where a group's offsets are to go.

    `value`: a time in ms (time), milliseconds back (age), a distance (shift), an offset (offset).
    """

    to: Literal["earliest", "latest", "time", "age", "shift", "offset", "group"]
    value: Digits | None = None
    group: Annotated[str, Meta(max_length=1024)] | None = None  # for `group`: whose offsets
    topic: Annotated[str, Meta(max_length=300)] | None = None  # null: all that it has committed
    partitions: list[int] | None = None
    offsets: dict[str, Digits] | None = None  # by partition of the topic, instead of one value


class PlanRow(ApiShape, kw_only=True):
    """One partition of a plan; `lag`: how far behind the group would be there."""

    topic: str
    partition: int
    committed: Digits | None
    new: Digits
    lag: int | None


class ResetPlan(ApiShape, kw_only=True):
    """A plan. It can be carried out only while nothing has changed."""

    plan: str
    rows: list[PlanRow]
    members: list[GroupMember]  # with any of them, brokers refuse to carry it out


class ResetExecution(ApiShape, kw_only=True):
    """Carrying out a plan: its name, and the group's id, typed."""

    plan: Annotated[str, Meta(max_length=200)]
    confirm: Annotated[str, Meta(max_length=1024)]


class SeriesLine(ApiShape, kw_only=True):
    """One line of a chart; null where there was no reading."""

    name: SeriesName
    labels: dict[str, str]
    v: list[float | None]


class SeriesAnswer(ApiShape, kw_only=True):
    """Lines over time."""

    t: list[int]  # milliseconds, one for each value of a line
    step_s: int
    lines: list[SeriesLine]


class BrokerSummary(ApiShape, kw_only=True):
    """A broker."""

    id: int
    address: str
    rack: str | None
    controller: bool
    ready: bool | None
    reasons: list[str]
    version: str | None
    features: list[str]
    up_s: float | None
    leaders: int
    logs: int | None
    groups: int | None
    connections: int | None
    cpu: float | None  # of one core, over the last minute
    memory_bytes: int | None
    unknown: Unknown = field(default_factory=dict)


class LogRow(ApiShape, kw_only=True):
    """A log that a broker owns."""

    log: str
    owner: int | None
    lanes: int | None
    end: Digits | None
    tail_objects: int | None
    live_bytes: int | None
    dead_bytes: int | None
    puts_per_s: float | None


class MoveRow(ApiShape, kw_only=True):
    """A topic on its way to another layout."""

    topic: str
    phase: str
    to: str | None


class FleetPage(ApiShape, kw_only=True):
    """All brokers, and what they own."""

    as_of_ms: int
    cluster_id: str | None
    generation: int | None
    controller: int | None
    hand_overs: int | None
    brokers: list[BrokerSummary]
    logs: list[LogRow]
    logs_total: int
    moves: list[MoveRow]
    unknown: Unknown = field(default_factory=dict)


class BrokerConfigRow(ApiShape, kw_only=True):
    """A setting of a broker."""

    name: str
    value: str | None
    source: str
    read_only: bool


class BrokerPage(ApiShape, kw_only=True):
    """One broker with its settings."""

    broker: BrokerSummary
    configs: list[BrokerConfigRow]
    logs: list[LogRow]


class ActivityRow(ApiShape, kw_only=True):
    """Something that was done, or refused, in this console."""

    at_ms: int
    user: str
    address: str
    action: str
    resource: str
    outcome: str
    request_id: str


class ActivityList(ApiShape, kw_only=True):
    """The newest first."""

    items: list[ActivityRow]


class UserRow(ApiShape, kw_only=True):
    """A user that can log in to brokers."""

    name: str
    mechanisms: list[str]


class UserList(ApiShape, kw_only=True):
    """Users."""

    items: list[UserRow]


class AclSummary(ApiShape, kw_only=True):
    """An entry of the access control lists."""

    principal: str
    host: str
    operation: str
    permission: str
    resource_type: str
    resource: str
    pattern: str


class AclList(ApiShape, kw_only=True):
    """Access control lists."""

    items: list[AclSummary]


class QuotaRow(ApiShape, kw_only=True):
    """A quota of a client."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotaList(ApiShape, kw_only=True):
    """Quotas."""

    items: list[QuotaRow]


class HealthAnswer(ApiShape, kw_only=True):
    """That the console's process is there."""

    status: Literal["ok"]
