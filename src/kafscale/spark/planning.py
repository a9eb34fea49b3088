"""From options to windows of partitions, on the driver.

Here: which topics and partitions are meant, what the bucket has of them, where a batch query
begins and ends. Next door: a stream's offsets (stream.py), cutting windows into tasks (splits.py).
"""

from collections.abc import Collection, Sequence

from kafscale.model.errors import UnknownTopic
from kafscale.spark import offsets, splits, times
from kafscale.spark.bucket import Bucket
from kafscale.spark.filters import Bounds
from kafscale.spark.options import Options
from kafscale.spark.splits import Slice, Split
from kafscale.spark.views import PartitionView, look


def views(
    bucket: Bucket, options: Options, topics: Collection[str] | None = None
) -> list[PartitionView]:
    """What the query is about, as it is now; with `topics`, only these of them."""
    found: list[PartitionView] = []
    for topic in bucket.select(options.subscribe or tuple(options.assign), options.pattern):
        if topics is not None and topic.name not in topics:
            continue
        wanted = options.assign.get(topic.name)
        if wanted is not None and any(not 0 <= p < topic.partitions for p in wanted):
            raise UnknownTopic(f"{topic.name} has the partitions 0 to {topic.partitions - 1}")
        found += look(bucket, topic, wanted)
    return found


def windows(
    bucket: Bucket, options: Options, found: Sequence[PartitionView], bounds: Bounds
) -> list[Slice]:
    """A batch query's windows, as narrow as its filters allow."""

    def find_time(view: PartitionView, time_ms: int) -> int | None:
        return times.first_at_or_after(bucket, view, time_ms)

    meant = [view for view in found if bounds.allow(view.topic, view.partition)]
    starts = offsets.resolve(
        options.starting,
        meant,
        find_time,
        name="startingOffsets",
        no_match_is_latest=options.no_match_is_latest,
    )
    ends = offsets.resolve(
        options.ending, meant, find_time, name="endingOffsets", no_match_is_latest=True
    )
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
    return splits.plan(
        slices,
        options.split_bytes,
        min_splits=options.min_partitions,
        max_offsets=options.max_records_per_partition,
    )
