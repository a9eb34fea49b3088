"""`mirror`: topics of another Kafka in the bucket, record for record at the same offsets.

Every partition is copied by one task, from where the copy ends to where the source ended when the
run began. Whole segments are added to the end of the log like a broker's flushes
(log/writer/job_appender.py): what a run has copied stays, the next one goes on behind it, and two
at once copy nothing twice. Where the source has holes, the copy has them too. Kept: offsets,
keys, values, headers, times, log starts. Not kept: producers' ids, transactions (what was aborted
is left out), and whether a time was set by the broker. Next door: reading the other Kafka
(transfer/foreign.py), groups (transfer/offset_map.py).
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafscale.log.formats import places
from kafscale.log.formats.places import LanePlace
from kafscale.log.protocol.commits import LostRace
from kafscale.log.writer.job_appender import JobAppender
from kafscale.model.errors import InvalidRequest, TopicExists, UnknownTopic
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution import units
from kafscale.spark.job import Context, Report
from kafscale.spark.sink import bulk
from kafscale.spark.transfer import foreign, offset_map
from kafscale.spark.transfer.foreign import Foreign, ForeignTopic
from kafscale.spark.transfer.rewriter import Rewriter
from kafscale.spark.views import read_views

JOB: Final = "mirror"
SEGMENT_BYTES: Final = 32 << 20
_AUTHOR: Final = "mirror"
_INTERVAL: Final = 4096


class Copy(NamedTuple):
    """One partition to be copied; travels to an executor."""

    bucket: Bucket
    source: Foreign
    topic: str
    partition: int
    place: LanePlace
    until: int
    compression: str
    segment_bytes: int = SEGMENT_BYTES


class CopiedRange(NamedTuple):
    """What a task has done."""

    topic: str
    partition: int
    first: int
    end: int
    records: int
    bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where from, and what besides records."""
    parser.add_argument("--from", dest="source", required=True, metavar="HOST:PORT")
    foreign.add_config_argument(parser, "--from")
    parser.add_argument(
        "--compression", default="zstd", choices=["none", "gzip", "snappy", "lz4", "zstd"]
    )
    parser.add_argument("--groups", action="store_true", help="copy committed offsets of groups")
    parser.add_argument("--bootstrap", default="", metavar="HOST:PORT", help="needed for --groups")
    foreign.add_config_argument(parser, "--bootstrap")


def run(context: Context, args: argparse.Namespace) -> Report:
    """Copy what is new."""
    if args.groups and not args.bootstrap:
        raise InvalidRequest("groups live at the brokers: --groups needs --bootstrap HOST:PORT")
    source = Foreign(args.source, foreign.read_settings(args.from_config))
    return mirror(
        context,
        source,
        compression=args.compression,
        bootstrap=args.bootstrap,
        bootstrap_settings=foreign.read_settings(args.bootstrap_config),
        groups=args.groups,
    )


def mirror(
    context: Context,
    source: Foreign,
    *,
    compression: str = "zstd",
    bootstrap: str = "",
    bootstrap_settings: Mapping[str, str] | None = None,
    groups: bool = False,
) -> Report:
    """Copy the topics of the context, all but internal ones if it names none."""
    bucket = context.bucket
    admin = foreign.admin(bootstrap, bootstrap_settings) if bootstrap else None
    cluster, topics = source.topics(context.topics)
    if context.dry_run:
        return _estimate(bucket, cluster, topics)
    report = Report(JOB)
    copies: list[Copy] = []
    for topic in topics:
        made = _mirror_topic(bucket, cluster, topic)
        if made.partitions < len(topic.bounds):
            made = _grow(bucket, admin, made, topic, report)
        copies += [
            Copy(
                bucket,
                source,
                topic.name,
                number,
                places.place(made, number),
                high,
                compression,
            )
            for number, (_, high) in enumerate(topic.bounds[: made.partitions])
        ]
    done = units.run_units(
        context.spark,
        copies,
        copy_partition,
        progress=lambda now, total: context.progress("partitions", now, total, ""),
    )
    _tell(report, done)
    if groups:
        report.facts["groups"] = _copy_groups(source, admin, done)
    return report


# -- topics ----------------------------------------------------------------------------------


def _origin(cluster: str, topic: str) -> str:
    return f"{JOB} {cluster} {topic}"


def _mirror_topic(bucket: Bucket, cluster: str, topic: ForeignTopic) -> TopicDescriptor:
    """The copy of a topic, made empty at the source's log starts if there is none yet."""
    existing = _existing(bucket, cluster, topic.name)
    if existing is not None:
        return existing
    plan = bulk.begin(
        bucket,
        topic.name,
        len(topic.bounds),
        configs=topic.configs,
        origin=_origin(cluster, topic.name),
    )
    starts = {number: low for number, (low, _) in enumerate(topic.bounds)}
    try:
        return bulk.commit(plan, [], starts=starts).topic
    except TopicExists:
        existing = _existing(bucket, cluster, topic.name)  # by another run at the same time
        if existing is None:
            raise
        return existing


def _existing(bucket: Bucket, cluster: str, name: str) -> TopicDescriptor | None:
    try:
        topic = bucket.topic(name)
    except UnknownTopic:
        return None
    if topic.origin != _origin(cluster, name):
        raise TopicExists(f"topic {name!r} exists already and is no mirror of this source")
    return topic


def _grow(
    bucket: Bucket, admin: Any, made: TopicDescriptor, topic: ForeignTopic, report: Report
) -> TopicDescriptor:
    """The source has more partitions by now: brokers must learn of them first."""
    if admin is not None:
        foreign.add_partitions(admin, topic.name, len(topic.bounds))
        return bucket.topic(topic.name)
    report.exit_code = 1
    report.notes.append(
        f"{topic.name} has {len(topic.bounds)} partitions now, the copy {made.partitions}: "
        "give --bootstrap, so that they can be added"
    )
    return made


# -- records ---------------------------------------------------------------------------------


def copy_partition(work: Copy) -> CopiedRange:
    """Copy from where the log ends; if another writer appends to it, read its end again."""

    async def opened(store: ObjectStore) -> JobAppender:
        appender = JobAppender(
            store,
            work.place.folder,
            work.bucket.clock,
            work.bucket.dice,
            author=_AUTHOR,
            index_interval_bytes=_INTERVAL,
        )
        await appender.open()
        return appender

    lane = work.place.lane
    log = work.bucket.run(opened)
    first = log.next(lane)
    records = size = 0
    with work.source.partition(work.topic, work.partition) as reader:
        while log.next(lane) < work.until:
            writer = Rewriter(work.compression, log.next(lane), leader_epoch=log.epoch(lane))
            end = reader.read_into(writer, work.until, work.segment_bytes)
            if end <= log.next(lane):
                break  # the source has nothing more, whatever it announced
            made = writer.finish(end)._replace(lane=lane)
            try:
                work.bucket.wait(log.append([made]))
            except LostRace:
                log = work.bucket.run(opened)
                continue
            records += made.records
            size += writer.bytes
    return CopiedRange(work.topic, work.partition, first, log.next(lane), records, size)


# -- groups ----------------------------------------------------------------------------------


def _copy_groups(source: Foreign, admin: Any, done: Sequence[CopiedRange]) -> int:
    """Commit what groups have committed at the source, as far as it has been copied."""
    ends: dict[str, dict[int, int]] = {}
    for row in done:
        ends.setdefault(row.topic, {})[row.partition] = row.end
    count = 0
    for group, topics in source.groups(ends).items():
        for topic, offsets in topics.items():
            known: Mapping[int, int] = {
                number: min(at, ends[topic][number])
                for number, at in offsets.items()
                if number in ends[topic]
            }
            offset_map.commit_offsets(admin, group, topic, known)
        count += 1
    return count


# -- telling ---------------------------------------------------------------------------------


def _tell(report: Report, done: Sequence[CopiedRange]) -> None:
    report.facts |= {
        "topics": len({row.topic for row in done}),
        "partitions": len(done),
        "records": sum(row.records for row in done),
        "bytes_written": sum(row.bytes for row in done),
    }
    report.rows = [
        {
            "topic": row.topic,
            "partition": row.partition,
            "from": row.first,
            "to": row.end,
            "records": row.records,
        }
        for row in done
    ]


def _estimate(bucket: Bucket, cluster: str, topics: Sequence[ForeignTopic]) -> Report:
    rows: list[dict[str, Any]] = []
    for topic in topics:
        made = _existing(bucket, cluster, topic.name)
        ends = (
            {} if made is None else {view.partition: view.high for view in read_views(bucket, made)}
        )
        for number, (low, high) in enumerate(topic.bounds):
            at = max(ends.get(number, low), low)
            row = {"topic": topic.name, "partition": number, "from": at, "to": high}
            rows.append({**row, "records": max(0, high - at)})
    facts = {
        "topics": len(topics),
        "partitions": len(rows),
        "records_at_most": sum(row["records"] for row in rows),
    }
    return Report(JOB, facts=facts, rows=rows, dry_run=True)
