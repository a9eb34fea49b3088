"""`convert`: a topic packed otherwise, or divided otherwise, as a new topic.

    same number of partitions   every record keeps its partition and offset; batches are joined
                                and compressed anew; committed offsets of groups stay true
    another number              records are divided by key as Kafka's clients do it, and get new
                                offsets; a map from old to new offsets lies beside the topic, and
                                groups' offsets are translated by it (offset_map.py)

The new topic appears when all of it is there. What a run has finished is kept: a run after a
crash goes on from there, and two runs at once share the work.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from kafscale.log import keys
from kafscale.log.descriptors import Wish
from kafscale.model.errors import InvalidRequest, TopicExists, UnknownTopic
from kafscale.model.topics import TopicDescriptor
from kafscale.spark import units
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.kernels.decoder import Decoder
from kafscale.spark.leftovers import LoadLost
from kafscale.spark.moving import offset_map
from kafscale.spark.moving.rewriting import rewritten
from kafscale.spark.progress import Progress, fingerprint
from kafscale.spark.sink import bulk, sealing
from kafscale.spark.sink.bulk import Loaded
from kafscale.spark.sink.encode import BATCH_BYTES
from kafscale.spark.sink.sealing import Sealed
from kafscale.spark.sink.staging import Section, stage
from kafscale.spark.source import splits
from kafscale.spark.source.reading import read_split, replaced
from kafscale.spark.source.splits import Slice
from kafscale.spark.views import PartitionView, look

JOB: Final = "convert"
_COLUMNS: Final = ("key", "value", "offset", "timestamp", "headers")
_PUTS_PER_SEGMENT: Final = 2


class Wanted(NamedTuple):
    """What the new topic shall be."""

    topic: str
    to: str
    partitions: int = 0  # 0: as many as there are
    compression: str = "zstd"
    batch_bytes: int = BATCH_BYTES


class _Plan(msgspec.Struct, frozen=True):
    """What is done, decided once."""

    wish: Wish
    slices: list[Slice]  # in the order in which their records will stand
    starts: list[int]  # of the source's partitions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to make of which topic."""
    parser.add_argument("--to", required=True, metavar="T", help="the new topic")
    parser.add_argument("--partitions", type=int, default=0, metavar="N", help="else as it has")
    parser.add_argument(
        "--compression", default="zstd", choices=["none", "gzip", "snappy", "lz4", "zstd"]
    )
    parser.add_argument("--batch-bytes", type=int, default=BATCH_BYTES, metavar="N")
    parser.add_argument(
        "--group", action="append", default=[], metavar="G", help="take its offsets along"
    )
    parser.add_argument("--bootstrap", default="", metavar="HOST:PORT", help="needed for --group")


def run(context: Context, args: argparse.Namespace) -> Report:
    """Convert one topic."""
    if len(context.topics) != 1:
        raise InvalidRequest("say which topic: --topic T, once")
    if args.group and not args.bootstrap:
        raise InvalidRequest("groups live at the brokers: --group needs --bootstrap HOST:PORT")
    wanted = Wanted(context.topics[0], args.to, args.partitions, args.compression, args.batch_bytes)
    report = convert(context, wanted)
    if args.group and not context.dry_run:
        report.rows += offset_map.take_along(
            context.bucket, args.bootstrap, wanted.topic, wanted.to, args.group
        )
    return report


def convert(context: Context, wanted: Wanted) -> Report:
    """Make the new topic, or find that an earlier run has made it."""
    bucket = context.bucket
    source = bucket.topic(wanted.topic)
    wanted = wanted._replace(partitions=wanted.partitions or source.partitions)
    identity = fingerprint(source.topic_id, *wanted)
    notes = Progress(bucket, JOB, identity)
    if context.dry_run:
        return _estimate(bucket, source, wanted)
    if (made := _made_before(bucket, wanted.to, f"{JOB} {identity}")) is not None:
        notes.forget()
        return _report(wanted, made, 0, ["made by an earlier run: nothing was done"])
    plan = notes.plan(lambda: _decide(bucket, source, wanted, f"{JOB} {identity}"), _Plan)
    try:
        loaded = _convert(context, notes, plan, wanted, source)
    except LoadLost:
        notes.forget()  # what it had finished is gone: the next run begins anew
        raise
    notes.forget()
    return _report(wanted, loaded.topic, loaded.bytes, [])


def _made_before(bucket: Bucket, to: str, origin: str) -> TopicDescriptor | None:
    try:
        found = bucket.topic(to)
    except UnknownTopic:
        return None
    if found.origin != origin:
        raise TopicExists(f"topic {to!r} exists already, and not by this conversion")
    return found


def _decide(bucket: Bucket, source: TopicDescriptor, wanted: Wanted, origin: str) -> _Plan:
    views = look(bucket, source)
    begun = bulk.begin(
        bucket,
        wanted.to,
        wanted.partitions,
        compression=wanted.compression,
        configs=source.configs,
        origin=origin,
    )
    return _Plan(begun.wish, in_time_order(slices_of(views)), [view.start for view in views])


def slices_of(views: Sequence[PartitionView]) -> list[list[Slice]]:
    """Every partition in pieces of a task's size."""
    found = []
    for view in views:
        whole = splits.window(view, view.start, view.end)
        found.append([one for split in splits.plan([whole]) for one in split])
    return found


def in_time_order(partitions: Sequence[Sequence[Slice]]) -> list[Slice]:
    """Slices of all partitions by the time they begin, each partition's own in their order.

    So that in the new topic records stand about where they stood in time, and a group that has
    read half of the old topic has read about the first half of the new one.
    """
    rows = []
    for mine in partitions:
        latest = -(1 << 63)
        for number, one in enumerate(mine):
            latest = max(latest, min(s.min_timestamp_ms for s in one.stretches))
            rows.append((latest, one.partition, number, one))
    return [row[-1] for row in sorted(rows, key=lambda row: row[:3])]


def _convert(
    context: Context, notes: Progress, plan: _Plan, wanted: Wanted, source: TopicDescriptor
) -> Loaded:
    bucket = context.bucket
    load = bulk.plan_of(bucket, plan.wish, wanted.compression)
    load = load._replace(target=load.target._replace(batch_bytes=wanted.batch_bytes))
    interval = load.settings.index_interval_bytes

    def watch(what: str) -> units.Progress:
        return lambda done, total: context.progress(what, done, total, "")

    def in_place(one: Slice) -> Sealed:
        rows = _rows(bucket, one)
        lane = rewritten(rows, one.first, one.until, wanted.compression, wanted.batch_bytes)
        folder = keys.log_folder(load.target.folder, one.partition)
        return Sealed(one.partition, sealing.put_segment(bucket, folder, lane, interval))

    def aside(at: int) -> list[Section]:
        one = plan.slices[at]
        return stage(load.target, at, _rows(bucket, one), source=one.partition)

    if wanted.partitions == source.partitions:
        sealed = notes.run(
            lambda: context.spark, "slice", plan.slices, in_place, Sealed, progress=watch("slices")
        )
        loaded = bulk.commit(load, sealed, starts=dict(enumerate(plan.starts)))
    else:
        staged = notes.run(
            lambda: context.spark,
            "stage",
            range(len(plan.slices)),
            aside,
            list[Section],
            progress=watch("slices"),
        )
        works = bulk.seals(load, [row for rows in staged for row in rows])
        sealed = notes.run(
            lambda: context.spark,
            "seal",
            works,
            lambda work: sealing.seal(bucket, work),
            Sealed,
            progress=watch("segments"),
        )
        loaded = bulk.commit(load, sealed)
    bulk.tidy_up(load)
    return loaded


def _rows(bucket: Bucket, one: Slice) -> Iterator[pa.RecordBatch]:
    return read_split(bucket, (one,), Decoder(_COLUMNS), None, replaced(bucket, True))


# -- telling ---------------------------------------------------------------------------------


def _report(wanted: Wanted, made: TopicDescriptor, size: int, notes: list[str]) -> Report:
    facts = {
        "from": wanted.topic,
        "to": wanted.to,
        "partitions": made.partitions,
        "compression": wanted.compression,
        "bytes_written": size,
    }
    return Report(JOB, facts=facts, notes=notes)


def _estimate(bucket: Bucket, source: TopicDescriptor, wanted: Wanted) -> Report:
    """What it would read and write, at most as much as there is."""
    _made_before(bucket, wanted.to, "")
    views = look(bucket, source)
    size = sum(s.length for view in views for s in view.stretches)
    records = sum(s.records for view in views for s in view.stretches)
    objects = sum(len(view.stretches) for view in views)
    twice = wanted.partitions != source.partitions
    slices = sum(map(len, slices_of(views)))
    facts = {
        "from": wanted.topic,
        "to": wanted.to,
        "partitions": wanted.partitions,
        "records": records,
        "objects_read": objects + slices * twice,
        "bytes_read": size * (1 + twice),
        "bytes_written": size * (1 + twice),
        "put_requests": slices * (_PUTS_PER_SEGMENT + 1 + 2 * twice) + wanted.partitions + 2,
    }
    return Report(JOB, facts=facts, dry_run=True)
