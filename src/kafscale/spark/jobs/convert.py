"""`convert`: makes a new topic of a topic, with other packing, partitions or layout.

    same number of partitions   every record keeps its partition and offset; batches are joined
                                and compressed anew; committed offsets of groups stay true
    another number              records are divided by key as Kafka's clients do it, and get new
                                offsets; a map from old to new offsets lies beside the topic, and
                                it translates the offsets of groups (transfer/offset_map.py)

    ordinary, virtual           the new topic has logs of its own, as many as it has partitions or
                                fewer: all of it is written beside, and named at once
    shared                      it gets lanes of logs that brokers are writing: its records are
                                appended to these logs, beside the brokers
                                (conversion/shared_append.py)

The new topic appears when all of it is there. What a run has finished is kept: a run after a
crash goes on from there, and two runs at once share the work.
"""

import argparse
from collections.abc import Sequence
from typing import Final

from kafscale.log.catalog.descriptors import Descriptors, TopicSpec
from kafscale.log.formats import keys
from kafscale.model.errors import InvalidRequest, TopicExists, UnknownTopic
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution.job_notes import JobNotes, fingerprint
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.conversion.steps import ConversionPlan, NewTopicSpec, Work
from kafscale.spark.leftovers import LoadLost
from kafscale.spark.sink import bulk
from kafscale.spark.sink.bulk import Loaded
from kafscale.spark.sink.encode import BATCH_BYTES
from kafscale.spark.source.plan import splits
from kafscale.spark.source.plan.splits import Slice
from kafscale.spark.transfer import foreign, offset_map
from kafscale.spark.views import PartitionView, read_views

JOB: Final = "convert"
_PUTS_PER_SEGMENT: Final = 2
_NAME_LEFT: Final = 200  # of the longest name, when an id is added


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to make of which topic."""
    parser.add_argument("--to", required=True, metavar="T", help="the new topic")
    parser.add_argument(
        "--partitions", type=int, default=0, metavar="N", help="default: as many as the topic has"
    )
    parser.add_argument(
        "--compression", default="zstd", choices=["none", "gzip", "snappy", "lz4", "zstd"]
    )
    parser.add_argument(
        "--layout",
        default="ordinary",
        choices=["ordinary", "virtual", "shared"],
        help="a log per partition (ordinary), fewer logs, or lanes of logs that topics share",
    )
    parser.add_argument(
        "--physical-partitions",
        type=int,
        default=0,
        metavar="P",
        help="logs of a virtual topic; of a shared one, how many shared logs there are to be",
    )
    parser.add_argument(
        "--give-up",
        action="store_true",
        help="delete what an earlier, unfinished run of the same command has written",
    )
    parser.add_argument("--batch-bytes", type=int, default=BATCH_BYTES, metavar="N")
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="G",
        help="translate the committed offsets of this group, too",
    )
    parser.add_argument("--bootstrap", default="", metavar="HOST:PORT", help="needed for --group")
    foreign.add_config_argument(parser, "--bootstrap")


def run(context: Context, args: argparse.Namespace) -> Report:
    """Convert one topic."""
    if len(context.topics) != 1:
        raise InvalidRequest("say which topic: --topic T, once")
    if args.group and not args.bootstrap:
        raise InvalidRequest("groups live at the brokers: --group needs --bootstrap HOST:PORT")
    if args.layout == "ordinary" and args.physical_partitions:
        raise InvalidRequest("an ordinary topic has a log per partition: say --layout virtual")
    if args.layout == "virtual" and not args.physical_partitions:
        raise InvalidRequest("on how many logs? --layout virtual needs --physical-partitions P")
    wanted = NewTopicSpec(
        context.topics[0],
        args.to,
        args.partitions,
        args.compression,
        args.batch_bytes,
        args.layout,
        args.physical_partitions,
    )
    if args.give_up:
        return give_up(context, wanted)
    report = convert(context, wanted)
    if args.group and not context.dry_run:
        admin = foreign.admin(args.bootstrap, foreign.read_settings(args.bootstrap_config))
        report.rows += offset_map.translate_groups(
            context.bucket, admin, wanted.topic, wanted.to, args.group
        )
    return report


def convert(context: Context, wanted: NewTopicSpec) -> Report:
    """Make the new topic, or find that an earlier run has made it."""
    bucket = context.bucket
    source = bucket.topic(wanted.topic)
    wanted = wanted._replace(partitions=wanted.partitions or source.partitions)
    identity = fingerprint(source.topic_id, *wanted)
    notes = JobNotes(bucket, JOB, identity)
    if context.dry_run:
        return _estimate(bucket, source, wanted)
    if (made := _made_before(bucket, wanted.to, f"{JOB} {identity}")) is not None:
        notes.forget()
        return _report(wanted, made, 0, ["made by an earlier run: nothing was done"])
    plan = notes.plan(lambda: _decide(bucket, source, wanted, f"{JOB} {identity}"), ConversionPlan)
    try:
        loaded = _convert(context, notes, plan, wanted, source)
    except LoadLost:
        notes.forget()  # what it had finished is gone: the next run begins anew
        raise
    notes.forget()
    return _report(wanted, loaded.topic, loaded.bytes, [])


def give_up(context: Context, wanted: NewTopicSpec) -> Report:
    """Let the pipeline delete what an unfinished conversion has written.

    The sweep of leftovers finds its own folders. Lanes of shared logs end by a tombstone that names
    them (logs/removal.py), under a name that no topic has.
    """
    bucket = context.bucket
    source = bucket.topic(wanted.topic)
    wanted = wanted._replace(partitions=wanted.partitions or source.partitions)
    notes = JobNotes(bucket, JOB, fingerprint(source.topic_id, *wanted))
    if "plan" not in notes.steps():
        return Report(JOB, notes=["no such conversion has been begun"], dry_run=context.dry_run)
    wish = notes.plan(_no_plan, ConversionPlan).wish
    held = sum(one.count for one in wish.shared)
    facts = {"from": wanted.topic, "to": wanted.to, "lanes_given_up": held}
    if context.dry_run:
        return Report(JOB, facts=facts, dry_run=True)
    if any(topic.topic_id == wish.topic_id for topic in bucket.topics()):
        raise TopicExists(f"topic {wanted.to!r} is there: delete it instead")
    if wish.shared:
        bury(bucket, wish)
    notes.forget()
    return Report(JOB, facts=facts)


def bury(bucket: Bucket, wish: TopicSpec) -> None:
    """Write a tombstone for a topic that never was."""
    name = f"{wish.name[:_NAME_LEFT]}-{wish.topic_id[:8]}"
    gone = TopicDescriptor(
        name=name,
        topic_id=wish.topic_id,
        incarnation=1,
        folder=keys.topic_folder(bucket.namespace, name, wish.topic_id),
        partitions=wish.partitions,
        logs=0,
        layout="shared",
        shared=list(wish.shared),
        created_at=wish.created_at,
        deleted=True,
        origin=wish.origin,
    )
    bucket.run(lambda store: Descriptors(store, bucket.namespace).put(gone, 1))


def _no_plan() -> ConversionPlan:
    raise LoadLost("another run has given it up, or finished it")


def _made_before(bucket: Bucket, to: str, origin: str) -> TopicDescriptor | None:
    try:
        topic = bucket.topic(to)
    except UnknownTopic:
        return None
    if topic.origin != origin:
        raise TopicExists(f"topic {to!r} exists already, and not by this conversion")
    return topic


def _decide(
    bucket: Bucket, source: TopicDescriptor, wanted: NewTopicSpec, origin: str
) -> ConversionPlan:
    views = read_views(bucket, source)
    begun = bulk.begin(
        bucket,
        wanted.to,
        wanted.partitions,
        compression=wanted.compression,
        configs=source.configs,
        origin=origin,
        layout=wanted.layout,
        logs=wanted.logs,
    )
    return ConversionPlan(
        begun.wish, in_time_order(slices_of(views)), [view.start for view in views]
    )


def slices_of(views: Sequence[PartitionView]) -> list[list[Slice]]:
    """Every partition, cut into slices of the size of a task."""
    slices = []
    for view in views:
        whole = splits.window(view, view.start, view.end)
        slices.append([piece for split in splits.plan([whole]) for piece in split])
    return slices


def in_time_order(partitions: Sequence[Sequence[Slice]]) -> list[Slice]:
    """Slices of all partitions by the time they begin, each partition's own in their order.

    So that in the new topic records stand about where they stood in time, and a group that has
    read half of the old topic has read about the first half of the new one.
    """
    rows = []
    for mine in partitions:
        latest = -(1 << 63)
        for number, piece in enumerate(mine):
            latest = max(latest, min(s.min_timestamp_ms for s in piece.stored_ranges))
            rows.append((latest, piece.partition, number, piece))
    return [row[-1] for row in sorted(rows, key=lambda row: row[:3])]


def _convert(
    context: Context,
    notes: JobNotes,
    plan: ConversionPlan,
    wanted: NewTopicSpec,
    source: TopicDescriptor,
) -> Loaded:
    bucket = context.bucket
    load = bulk.plan_of(bucket, plan.wish, wanted.compression)
    load = load._replace(target=load.target._replace(batch_bytes=wanted.batch_bytes))
    work = Work(context, notes, plan, wanted, load)
    if wanted.partitions == source.partitions:
        starts = dict(enumerate(plan.starts))
        if wanted.layout == "shared":
            loaded = work.add(work.moves(), starts)
        else:
            loaded = bulk.commit(load, work.seal_in_place(), starts=starts)
    else:
        seals = bulk.seals(load, work.staged())
        if wanted.layout == "shared":
            loaded = work.add(seals, {})
        else:
            loaded = bulk.commit(load, work.seal(seals))
    bulk.tidy_up(load)
    return loaded


# -- telling ---------------------------------------------------------------------------------


def _report(wanted: NewTopicSpec, made: TopicDescriptor, size: int, notes: list[str]) -> Report:
    facts = {
        "from": wanted.topic,
        "to": wanted.to,
        "partitions": made.partitions,
        "layout": made.layout,
        "compression": wanted.compression,
        "bytes_written": size,
    }
    return Report(JOB, facts=facts, notes=notes)


def _estimate(bucket: Bucket, source: TopicDescriptor, wanted: NewTopicSpec) -> Report:
    """What it would read and write, at most as much as there is."""
    _made_before(bucket, wanted.to, "")
    views = read_views(bucket, source)
    size = sum(s.length for view in views for s in view.stored_ranges)
    records = sum(s.records for view in views for s in view.stored_ranges)
    objects = sum(len(view.stored_ranges) for view in views)
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
