"""Every route of the API: what it takes, what it gives, and whether it changes anything.

Here: one table. The application, the wall, the OpenAPI document and the page's types are made
from it. Next door: the structs (shapes.py), who may call what (wall.py).
"""

from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta, Struct

from kafscale.console.answers import record_shapes, shapes, store_shapes

PREFIX: Final = "api/v1/"
RouteEffect = Literal["looks", "changes"]
GroupId = Annotated[str, Meta(max_length=1024)]


class Query(Struct, kw_only=True, forbid_unknown_fields=True):
    """What may stand after the `?` of a path: nothing."""


class ListQuery(Query, kw_only=True):
    """Part of a list: found and sorted by the server."""

    find: Annotated[str, Meta(max_length=300)] = ""
    sort: Annotated[str, Meta(max_length=40)] = ""  # a field; with `-` the largest first
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: Annotated[str, Meta(max_length=1000)] = ""


class TopicsQuery(ListQuery, kw_only=True):
    """Part of the list of topics."""

    internal: Literal["show", "hide"] = "show"
    layout: Literal["", "ordinary", "virtual", "shared"] = ""


class TopicGroupsQuery(ListQuery, kw_only=True):
    """Part of the list of groups; `topic`: of those that read it."""

    topic: Annotated[str, Meta(max_length=300)] = ""


class GroupQuery(Query, kw_only=True):
    """Which group."""

    id: GroupId


class GroupTopicQuery(GroupQuery, kw_only=True):
    """Which group, and which topic's offsets of it."""

    topic: Annotated[str, Meta(max_length=300)]


class SeriesQuery(Query, kw_only=True):
    """Which lines: names with commas between, labels as a JSON object that lines must have."""

    names: Annotated[str, Meta(max_length=1000)]
    labels: Annotated[str, Meta(max_length=2000)] = ""
    span: Literal["15m", "1h", "6h", "24h", "7d", "30d"] = "1h"


class ObjectsQuery(Query, kw_only=True):
    """Part of the objects of a log of a topic; `log` as `logs` names them, empty: the first."""

    log: Annotated[str, Meta(max_length=400)] = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    after: Annotated[str, Meta(max_length=1000)] = ""


class ObjectQuery(Query, kw_only=True):
    """Which object."""

    key: Annotated[str, Meta(max_length=2000)]
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    after: Annotated[str, Meta(max_length=20)] = ""


class RecordQuery(Query, kw_only=True):
    """Which record, to be handed out whole."""

    partition: Annotated[int, Meta(ge=0)]
    offset: Annotated[int, Meta(ge=0)]
    part: Literal["key", "value"] = "value"
    snapshot: Annotated[str, Meta(max_length=300)] | None = None  # as of this one


class CostQuery(Query, kw_only=True):
    """Since each broker's start, or the last hour."""

    window: Literal["start", "hour"] = "start"


class SnapshotQuery(Query, kw_only=True):
    """Which snapshot."""

    name: Annotated[str, Meta(max_length=300)]


class JobsQuery(Query, kw_only=True):
    """Which jobs; empty: all."""

    job: Annotated[str, Meta(max_length=300)] = ""


class Route(NamedTuple):
    """One verb of the API."""

    name: str
    method: str
    path: str  # below the prefix
    effect: RouteEffect
    doc: str
    query: type[Query] = Query
    body: Any = None
    answer: Any = None
    status: int = 200
    events: tuple[Any, ...] = ()  # of a stream
    is_open: bool = False  # needs no login


_T: Final = "topics/{topic}"

ROUTES: Final = (
    Route("get_session", "GET", "session", "looks", "Who is logged in", answer=shapes.SessionFacts,
          is_open=True),
    Route("log_in", "POST", "session", "looks", "Log in", body=shapes.LoginRequest, status=204,
          is_open=True),
    Route("log_out", "DELETE", "session", "looks", "Log out", status=204),
    Route("get_overview", "GET", "overview", "looks", "The first page", answer=shapes.OverviewPage),
    Route("list_topics", "GET", "topics", "looks", "Topics", TopicsQuery, answer=shapes.TopicList),
    Route("create_topic", "POST", "topics", "changes", "Create a topic",
          body=shapes.NewTopicRequest, answer=shapes.NewTopicAnswer, status=201),
    Route("get_topic", "GET", _T, "looks", "A topic", answer=shapes.TopicSummary),
    Route("add_partitions", "PATCH", _T, "changes", "Give a topic more partitions",
          body=shapes.TopicPatch, status=204),
    Route("delete_topic", "DELETE", _T, "changes", "Delete a topic and its records",
          body=shapes.Confirmation, status=204),
    Route("get_configs", "GET", f"{_T}/configs", "looks", "Settings of a topic",
          answer=shapes.TopicConfigs),
    Route("alter_configs", "PATCH", f"{_T}/configs", "changes", "Change settings of a topic",
          body=shapes.ConfigsPatch, answer=shapes.ConfigsAnswer),
    Route("list_partitions", "GET", f"{_T}/partitions", "looks", "Partitions of a topic",
          ListQuery, answer=shapes.PartitionList),
    Route("list_objects", "GET", f"{_T}/objects", "looks", "Objects of a log of a topic",
          ObjectsQuery, answer=store_shapes.ObjectList),
    Route("get_object", "GET", "objects", "looks", "What is in an object", ObjectQuery,
          answer=store_shapes.ObjectView),
    Route("price_records", "POST", f"{_T}/records:price", "looks", "What a search would read",
          body=record_shapes.RecordRange, answer=record_shapes.SearchPrice),
    Route("search_records", "POST", f"{_T}/records:search", "looks", "Search records",
          body=record_shapes.SearchRequest,
          events=(record_shapes.RecordsEvent, record_shapes.ProgressEvent, record_shapes.EndEvent)),
    Route("tail_records", "POST", f"{_T}/records:tail", "looks", "Follow a topic",
          body=record_shapes.TailRequest,
          events=(record_shapes.RecordsEvent, record_shapes.ProgressEvent, record_shapes.EndEvent)),
    Route("get_record", "GET", f"{_T}/records", "looks", "A record's key or value as it is",
          RecordQuery, answer=bytes),
    Route("produce_records", "POST", f"{_T}/records", "changes", "Produce records",
          body=list[record_shapes.NewRecord], answer=record_shapes.ProducedAnswer),
    Route("delete_records", "DELETE", f"{_T}/records", "changes", "Delete records of a topic",
          body=record_shapes.DeleteRecordsRequest, answer=record_shapes.TrimmedAnswer),
    Route("list_groups", "GET", "groups", "looks", "Consumer groups", TopicGroupsQuery,
          answer=shapes.GroupList),
    Route("get_group", "GET", "group", "looks", "A consumer group", GroupQuery,
          answer=shapes.GroupPage),
    Route("delete_group", "DELETE", "group", "changes", "Delete a consumer group", GroupQuery,
          body=shapes.Confirmation, status=204),
    Route("plan_reset", "POST", "group/offsets:plan", "looks", "Plan where offsets would go",
          GroupQuery, body=shapes.ResetRequest, answer=shapes.ResetPlan),
    Route("reset_offsets", "POST", "group/offsets", "changes", "Carry out a plan", GroupQuery,
          body=shapes.ResetExecution, status=204),
    Route("delete_offsets", "DELETE", "group/offsets", "changes",
          "Forget what a group has committed of a topic", GroupTopicQuery,
          body=shapes.Confirmation, status=204),
    Route("get_series", "GET", "series", "looks", "Numbers over time", SeriesQuery,
          answer=shapes.SeriesAnswer),
    Route("get_fleet", "GET", "fleet", "looks", "Brokers and logs", answer=shapes.FleetPage),
    Route("get_broker", "GET", "brokers/{broker}", "looks", "A broker", answer=shapes.BrokerPage),
    Route("get_store", "GET", "store", "looks", "The object store", answer=store_shapes.StorePage),
    Route("get_cost", "GET", "cost", "looks", "What everything costs", CostQuery,
          answer=store_shapes.CostPage),
    Route("get_what_if", "POST", "cost:what-if", "looks", "The same with other settings",
          body=store_shapes.WhatIf, answer=store_shapes.WhatIfAnswer),
    Route("list_snapshots", "GET", "snapshots", "looks", "Snapshots",
          answer=store_shapes.SnapshotList),
    Route("take_snapshot", "POST", "snapshots", "changes", "Take a snapshot",
          body=store_shapes.NewSnapshot, answer=store_shapes.SnapshotRow, status=201),
    Route("release_snapshot", "DELETE", "snapshots", "changes", "Release a snapshot",
          SnapshotQuery, body=shapes.Confirmation, status=204),
    Route("list_jobs", "GET", "jobs", "looks", "Runs of the pipeline's jobs", JobsQuery,
          answer=store_shapes.JobList),
    Route("get_job", "GET", "jobs/{run}", "looks", "A run of a job", JobsQuery,
          answer=store_shapes.JobPage),
    Route("start_job", "POST", "jobs", "changes", "Start a job of the pipeline",
          body=store_shapes.JobRequest, answer=store_shapes.JobStarted, status=201),
    Route("list_tables", "GET", "pipeline/tables", "looks", "Tables that topics declare",
          answer=store_shapes.PipelineTables),
    Route("run_sql", "POST", "sql:run", "looks", "Run a query over topics",
          body=store_shapes.SqlRequest,
          events=(store_shapes.SqlColumns, store_shapes.SqlRows, store_shapes.SqlEnd)),
    Route("list_users", "GET", "users", "looks", "Users", answer=shapes.UserList),
    Route("list_acls", "GET", "acls", "looks", "Access control lists", answer=shapes.AclList),
    Route("list_quotas", "GET", "quotas", "looks", "Quotas", answer=shapes.QuotaList),
    Route("list_transactions", "GET", "transactions", "looks", "Transactions",
          answer=store_shapes.TransactionList),
    Route("list_subscriptions", "GET", "subscriptions", "looks",
          "Pulsar subscriptions and Fluvio consumers", answer=store_shapes.SubscriptionList),
    Route("list_activity", "GET", "activity", "looks", "What was done in this console",
          answer=shapes.ActivityList),
    Route("get_openapi", "GET", "openapi.json", "looks", "This document", answer=Any),
)  # fmt: skip
