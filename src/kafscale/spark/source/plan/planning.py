"""From options to windows of partitions, on the driver.

Here: which topics and partitions are meant, what the bucket has of them, where a batch query
begins and ends. Next door: a stream's offsets (source/stream.py), cutting windows into tasks
(splits.py).
"""

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafscale.model.errors import UnknownTopic
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.source import pins
from kafscale.spark.source.pins import NamedSnapshot
from kafscale.spark.source.plan import cuts, offsets, splits, times
from kafscale.spark.source.plan.filters import EVERYTHING, Bounds
from kafscale.spark.source.plan.options import Options
from kafscale.spark.source.plan.splits import Slice, Split
from kafscale.spark.views import PartitionView, read_all_views


@contextmanager
def undisturbed() -> Iterator[None]:
    """Make a plan without looking for cycles meanwhile: it has none, and may have a million parts.

    Measured for 10,000 partitions in 100 shared objects: 3.3 s instead of 4.4.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def views(bucket: Bucket, options: Options, bounds: Bounds = EVERYTHING) -> list[PartitionView]:
    """What the query is about, now or as of a snapshot, and of it the topics within bounds."""
    pinned = pins.read(bucket, options.as_of) if options.as_of else None
    chosen = [
        topic for topic in _selected(bucket, options, pinned) if bounds.allow_topic(topic.name)
    ]
    for topic in chosen:
        if any(not 0 <= p < topic.partitions for p in options.assign.get(topic.name, ())):
            raise UnknownTopic(f"{topic.name} has the partitions 0 to {topic.partitions - 1}")
    found = _found(bucket, options, chosen, pinned)
    return found if options.committed else [view.uncommitted() for view in found]


def _found(
    bucket: Bucket,
    options: Options,
    chosen: Sequence[TopicDescriptor],
    pinned: NamedSnapshot | None,
) -> list[PartitionView]:
    if pinned is None:
        return read_all_views(bucket, chosen, options.assign)
    rows = {(view.topic, view.partition): view for view in pinned.partitions}
    return [
        rows[topic.name, number]
        for topic in chosen
        for number in sorted(set(options.assign.get(topic.name, range(topic.partitions))))
        if (topic.name, number) in rows
    ]


def _selected(
    bucket: Bucket, options: Options, pinned: NamedSnapshot | None
) -> list[TopicDescriptor]:
    names = options.subscribe or tuple(options.assign)
    if pinned is None:
        return bucket.select(names, options.pattern)
    known = {topic.name: topic for topic in pinned.topics}
    for name in names:
        if name not in known:
            raise UnknownTopic(f"the snapshot {options.as_of!r} does not hold the topic {name!r}")
    if names:
        return [known[name] for name in names]
    return [topic for topic in pinned.topics if re.fullmatch(options.pattern, topic.name)]


def windows(
    bucket: Bucket, options: Options, views_read: Sequence[PartitionView], bounds: Bounds
) -> list[Slice]:
    """A batch query's windows, as narrow as its filters allow."""

    def find_time(view: PartitionView, time_ms: int) -> int | None:
        return times.first_at_or_after(bucket, view, time_ms)

    if bounds.topics is None and not bounds.prefixes:  # else `found` is not all the query is about
        offsets.refuse_unknown_partitions(options.starting, views_read, "starting")
        offsets.refuse_unknown_partitions(options.ending, views_read, "ending")
    meant = [view for view in views_read if bounds.allow(view.topic, view.partition)]
    starts = offsets.resolve(
        options.starting,
        meant,
        find_time,
        side="starting",
        no_match_is_latest=options.no_match_is_latest,
    )
    ends = offsets.resolve(options.ending, meant, find_time, side="ending", no_match_is_latest=True)
    rows = []
    for view in meant:
        place = (view.topic, view.partition)
        first, until = offsets.within(
            view, starts[place], ends[place], fail_on_data_loss=options.fail_on_data_loss
        )
        first, until = max(first, bounds.first), min(until, bounds.until)
        if first < until:
            rows.append(splits.window(view, first, until, bounds.since_ms))
    return rows


def cut(bucket: Bucket, options: Options, slices: Sequence[Slice]) -> list[Split]:
    """The tasks that read these windows."""
    target = options.split_bytes
    if options.min_partitions:
        total = sum(piece.size for piece in slices)
        target = max(1 << 20, min(target, total // options.min_partitions))
    return splits.plan(
        cuts.refined(bucket, slices, target),
        options.split_bytes,
        min_splits=options.min_partitions,
        max_offsets=options.max_records_per_partition,
    )
