"""`replay`: a lake table or a topic, or a part of either, written to a topic again.

    into a new topic      --partitions N: by bulk load; the topic appears when all of it is there,
                          and a second run of the same replay finds it done
    through brokers       --bootstrap HOST:PORT: into a topic that exists, step by step; finished
                          steps are noted in the bucket and a run after a crash goes on behind
                          them. The step in which it died is written again: at least once

Next door: where rows come from (transfer/origins.py), the load (sink/bulk.py), producers
(sink/producing.py).
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from kafscale.model.errors import InvalidRequest, TopicExists, UnknownTopic
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution.job_notes import JobNotes, fingerprint
from kafscale.spark.job import Context, Report
from kafscale.spark.sink import bulk, producing
from kafscale.spark.transfer import foreign, origins
from kafscale.spark.transfer.origins import Step

JOB: Final = "replay"
_MOST_TASKS: Final = 64


@dataclass(frozen=True)
class ReplayRequest:
    """What is replayed, and where to."""

    into: str
    topic: str = ""
    lake: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    where: str = ""
    columns: dict[str, str] = field(default_factory=dict)  # column of the sink: SQL expression
    order_by: str = ""
    partitions: int = 0
    compression: str = "lz4"
    bootstrap: str = ""
    rate: float = 0.0
    step_records: int = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What, which part of it, where to, how fast."""
    parser.add_argument(
        "--lake", default="", metavar="PATH", help="a Parquet or Delta table, instead of --topic"
    )
    parser.add_argument("--into", required=True, metavar="T", help="the topic that is written")
    parser.add_argument(
        "--from", dest="since", metavar="TIME", help="from this time on: ISO 8601, or Unix ms"
    )
    parser.add_argument("--to", dest="until", metavar="TIME", help="up to before this time")
    parser.add_argument("--where", default="", metavar="SQL", help="only rows for which this holds")
    for name in ("key", "value", "timestamp", "headers"):
        parser.add_argument(f"--{name}", default="", metavar="SQL", help=f"what becomes the {name}")
    parser.add_argument(
        "--order-by", default="", metavar="COLUMNS", help="order of the rows of a lake table"
    )
    parser.add_argument(
        "--partitions", type=int, default=0, metavar="N", help="make a new topic with N partitions"
    )
    parser.add_argument(
        "--compression", default="lz4", choices=["none", "gzip", "snappy", "lz4", "zstd"]
    )
    parser.add_argument(
        "--bootstrap", default="", metavar="HOST:PORT", help="write through brokers"
    )
    foreign.add_config_argument(parser, "--bootstrap")
    parser.add_argument("--rate", type=float, default=0.0, metavar="N", help="records per second")


def run(context: Context, args: argparse.Namespace) -> Report:
    """Replay one source."""
    columns = {name: getattr(args, name) for name in ("key", "value", "timestamp", "headers")}
    if len(context.topics) > 1:
        raise InvalidRequest("one --topic at a time")
    wanted = ReplayRequest(
        into=args.into,
        topic=context.topics[0] if context.topics else "",
        lake=args.lake,
        since_ms=read_time(args.since),
        until_ms=read_time(args.until),
        where=args.where,
        columns={name: text for name, text in columns.items() if text},
        order_by=args.order_by,
        partitions=args.partitions,
        compression=args.compression,
        bootstrap=args.bootstrap,
        rate=args.rate,
    )
    return replay(context, wanted, foreign.read_settings(args.bootstrap_config))


def read_time(text: str | None) -> int | None:
    """Milliseconds of a time as users write it; without a zone it is UTC."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{text}: write a time like 2026-01-31T12:00:00Z") from None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def replay(
    context: Context, wanted: ReplayRequest, settings: Mapping[str, str] | None = None
) -> Report:
    """Do it, or go on with it. `settings`: how brokers are reached, beside their address."""
    if bool(wanted.topic) == bool(wanted.lake):
        raise InvalidRequest("say what to replay: --topic T or --lake PATH")
    if bool(wanted.bootstrap) == bool(wanted.partitions):
        raise InvalidRequest("say how: --partitions N for a new topic, --bootstrap for brokers")
    if wanted.partitions and wanted.rate:
        raise InvalidRequest("a new topic appears at once: --rate is for --bootstrap")
    source = context.bucket.topic(wanted.topic) if wanted.topic else None
    if source is not None and wanted.bootstrap and wanted.topic == wanted.into:
        raise InvalidRequest("a topic is not replayed into itself")
    if context.dry_run:
        return _estimate(context.bucket, wanted)
    identity = fingerprint(source.topic_id if source else "", msgspec.to_builtins(wanted))
    if wanted.bootstrap:
        return _through_brokers(context, wanted, identity, settings or {})
    return _in_bulk(context, wanted, f"{JOB} {identity}")


# -- rows ------------------------------------------------------------------------------------


def chosen(frame: DataFrame, wanted: ReplayRequest) -> DataFrame:
    """The part that is wanted, with the columns of the sink; others stay, for ordering."""
    expressions = {**origins.columns_of(frame), **wanted.columns}
    if "value" not in expressions:
        raise InvalidRequest("no column 'value': say what becomes of a row with --value SQL")
    if wanted.where:
        frame = frame.where(wanted.where)
    rows = frame.select(
        *(sql.expr(text).alias(name) for name, text in expressions.items()),
        *(sql.col(name).alias(f"_{name}") for name in ("partition", "offset") if wanted.topic),
    )
    if (wanted.since_ms, wanted.until_ms) != (None, None) and "timestamp" not in expressions:
        raise InvalidRequest("no column 'timestamp': a window of time needs --timestamp SQL")
    if wanted.since_ms is not None:
        rows = rows.where(sql.expr(f"timestamp >= timestamp_millis({wanted.since_ms})"))
    if wanted.until_ms is not None:
        rows = rows.where(sql.expr(f"timestamp < timestamp_millis({wanted.until_ms})"))
    return rows


def orders(text: str) -> list[Column]:
    """The columns of an ORDER BY; alone, `x desc` would be taken for x under another name."""
    orders_found = []
    for part in text.split(","):
        name, _, direction = part.strip().rpartition(" ")
        if direction.lower() in ("asc", "desc"):
            column = sql.expr(name)
            orders_found.append(column.desc() if direction.lower() == "desc" else column.asc())
        else:
            orders_found.append(sql.expr(part))
    return orders_found


def _in_bulk(context: Context, wanted: ReplayRequest, origin: str) -> Report:
    try:
        made = context.bucket.topic(wanted.into)
    except UnknownTopic:
        pass
    else:
        if made.origin != origin:
            raise TopicExists(f"topic {wanted.into!r} exists already: replay into a new one")
        note = "made by an earlier run: nothing was done"
        return Report(JOB, facts={"into": wanted.into, "records": 0}, notes=[note])
    frame = origins.whole(context.spark, context.bucket, wanted.topic, wanted.lake)
    if wanted.order_by:
        frame = frame.orderBy(*orders(wanted.order_by))
    loaded = bulk.load(
        chosen(frame, wanted),
        context.bucket,
        wanted.into,
        wanted.partitions,
        compression=wanted.compression,
        origin=origin,
        progress=lambda what, done, total: context.progress(what, done, total, ""),
    )
    facts = {
        "into": wanted.into,
        "records": loaded.records,
        "bytes_written": loaded.bytes,
        "segments": loaded.segments,
    }
    return Report(JOB, facts=facts)


# -- through brokers -------------------------------------------------------------------------


def _through_brokers(
    context: Context, wanted: ReplayRequest, identity: str, settings: Mapping[str, str]
) -> Report:
    notes = JobNotes(context.bucket, JOB, identity)
    steps = notes.plan(
        lambda: origins.steps(
            lambda: context.spark, context.bucket, wanted.topic, wanted.lake, wanted.step_records
        ),
        list[Step],
    )
    done = notes.steps()
    records = skipped = 0
    for number, step in enumerate(steps):
        context.progress("steps", number, len(steps), "")
        name = f"done-{number:06d}"
        if name in done:
            skipped += 1
            continue
        count = _write_step(context, wanted, step, settings)
        notes.keep(name, count, int)
        records += count
    context.progress("steps", len(steps), len(steps), "")
    notes.forget()
    facts = {"into": wanted.into, "records": records, "steps": len(steps), "steps_skipped": skipped}
    return Report(JOB, facts=facts)


def _write_step(
    context: Context, wanted: ReplayRequest, step: Step, given: Mapping[str, str]
) -> int:
    """Produce the rows of one step; rows of one partition of a topic keep their order."""
    rows = chosen(origins.read_step(context.spark, context.bucket, wanted.topic, step), wanted)
    if wanted.topic:
        tasks = min(_MOST_TASKS, max(1, len(step.ends)))
        rows = rows.repartition(tasks, "_partition").sortWithinPartitions("_partition", "_offset")
    elif wanted.order_by:
        rows = rows.coalesce(1).sortWithinPartitions(*orders(wanted.order_by))
    settings = producing.settings_of({"kafka.bootstrap.servers": wanted.bootstrap})
    settings |= {"compression.type": wanted.compression, **given}
    share = 0.0
    if wanted.rate:
        at_once = context.spark.sparkContext.defaultParallelism
        share = wanted.rate / max(1, min(at_once, rows.rdd.getNumPartitions()))
    into = wanted.into

    def on_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = producing.produce(settings, into, batches, per_second=share)
        yield pa.RecordBatch.from_pydict({"records": pa.array([count], pa.int64())})

    counts = rows.drop("_partition", "_offset").mapInArrow(on_worker, "records bigint").collect()
    return sum(row["records"] for row in counts)


def _estimate(bucket: Bucket, wanted: ReplayRequest) -> Report:
    facts: dict[str, Any] = {"into": wanted.into}
    facts |= origins.estimate(bucket, wanted.topic, wanted.lake, wanted.since_ms, wanted.until_ms)
    if wanted.partitions:
        facts["bytes_written_at_most"] = 2 * facts["bytes_read"]
    if wanted.rate:
        facts["seconds_at_least"] = facts["records_at_most"] / wanted.rate
    return Report(JOB, facts=facts, dry_run=True)
