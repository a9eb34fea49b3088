"""What topics hold: records, bytes, codecs, times, keys, small objects, lags, money.

Here: the arguments, gathering, the report. Nothing is changed anywhere. Most of it comes from
manifests; the rest from samples, which the driver takes itself unless they are large.
Next door: the arithmetic (report/statistics.py, report/sampling.py), the page (report/html.py).
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kafscale.log.protocol.survey import await_limited
from kafscale.model.errors import InvalidRequest
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings, iso_time
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution.here_or_spark import run_here_or_on_spark
from kafscale.spark.job import Context, Report
from kafscale.spark.report import group_offsets, sampling, statistics
from kafscale.spark.report.sampling import RecordSample, SampledRange
from kafscale.spark.report.statistics import FlushObject, Prices, Statistics, TopicStats
from kafscale.spark.source.splits import SPLIT_BYTES
from kafscale.spark.views import PartitionView, StoredRange, places_of, read_all_views, views_of

SAMPLE_BYTES: Final = 4 << 20
WITHOUT_SPARK_BYTES: Final = 256 << 20  # a session takes longer to start than this to read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what statistics take."""
    parser.add_argument(
        "--sample", type=int, default=SAMPLE_BYTES, metavar="BYTES",
        help=f"read of each partition for codecs and keys (default {SAMPLE_BYTES}; 0: none)",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="read everything instead of samples")
    parser.add_argument(
        "--metadata",
        metavar="FILE",
        help="the broker's metadata.db, for the lag of groups (default: the one beside the "
        "objects, else the last checkpoint in the bucket)",
    )
    parser.add_argument(
        "--target-bytes",
        type=int,
        metavar="N",
        help="of objects; default: the topic's segment.bytes",
    )
    parser.add_argument(
        "--prices", default="", metavar="NAME=USD,...",
        help="storage (a GB for a month), put, get (a thousand); default "
        + ",".join(f"{name}={price}" for name, price in Prices()._asdict().items()),
    )  # fmt: skip
    parser.add_argument("--gets-per-day", type=float, default=0.0, metavar="N", help="for the cost")
    parser.add_argument("--html", metavar="FILE", help="write a page with pictures")


def run(context: Context, args: argparse.Namespace) -> Report:
    """Look at the topics and report."""
    sample = 1 << 62 if args.full else args.sample
    if context.dry_run:
        return _plan(context, sample)
    found = gather(
        context,
        sample_bytes=sample,
        metadata=Path(args.metadata) if args.metadata else None,
        target_bytes=args.target_bytes,
        prices=prices_of(args.prices),
        gets_per_day=args.gets_per_day,
    )
    report = report_of(found)
    if args.html:
        from kafscale.spark.report.html import page

        Path(args.html).write_text(page(found), "utf-8")
        report.notes.append(f"the page is in {args.html}")
    return report


def topic_stats(store: str, *topics: str, sample_bytes: int = SAMPLE_BYTES) -> Statistics:
    """For notebooks: statistics of the named topics, or of all."""
    return gather(Context(Bucket(store), topics), sample_bytes=sample_bytes)


def gather(
    context: Context,
    *,
    sample_bytes: int = SAMPLE_BYTES,
    metadata: Path | None = None,
    target_bytes: int | None = None,
    prices: Prices | None = None,
    gets_per_day: float = 0.0,
) -> Statistics:
    """Look at manifests, take samples, look at groups."""
    bucket = context.bucket
    chosen = context.chosen()
    context.progress("looking at topics", 0, len(chosen), "")
    wanted = places_of(chosen)
    snapshots = bucket.read_logs(place.folder for _, _, place in wanted)
    views = views_of(wanted, snapshots)
    flushes: dict[str, FlushObject] = {}
    for snapshot in snapshots.values():
        flushes |= statistics.flushes_of(snapshot.tail)
    by_topic: dict[str, list[PartitionView]] = {topic.name: [] for topic in chosen}
    for view in views:
        by_topic[view.topic].append(view)
    topics = [_topic(bucket, one, flushes, by_topic[one.name], target_bytes) for one in chosen]
    looks = [look for view in views for look in sampling.sampled_ranges(bucket, view, sample_bytes)]
    samples = _sampled(context, looks) if sample_bytes else {}
    for one in (one for topic in topics for one in topic.partitions):
        one.sample = samples.get((one.topic, one.partition), RecordSample())
    found = Statistics(
        bucket.url,
        iso_time(bucket.clock.now_ms()),
        topics,
        prices or Prices(),
        gets_per_day,
        sampled_bytes=sum(look.length for look in looks) if sample_bytes else 0,
        objects=len({one.key for view in views for one in view.stored_ranges}),
    )
    _add_lags(found, bucket, metadata)
    return found


def _topic(
    bucket: Bucket,
    topic: TopicDescriptor,
    flushes: Mapping[str, FlushObject],
    views: Sequence[PartitionView],
    target_bytes: int | None,
) -> TopicStats:
    settings = TopicSettings.of(topic.configs, TopicDefaults())
    target = target_bytes or settings.segment_bytes
    times = _times(bucket, [one for view in views for one in view.stored_ranges])
    partitions = [statistics.partition_stats(view, flushes, target, times) for view in views]
    return TopicStats(topic.name, topic.topic_id, target, partitions)


def _times(bucket: Bucket, stored_ranges: Sequence[StoredRange]) -> dict[str, tuple[int, int]]:
    """The times of large flushes that were not rolled up yet, by their first batch."""
    untold = [one for one in stored_ranges if not statistics.told(one)]

    async def look(store: ObjectStore) -> list[memoryview]:
        return await await_limited(
            store.read(one.key, one.start, batch.HEADER_SIZE) for one in untold
        )

    headers = [batch.read_header(found) for found in bucket.run(look)]
    return {
        one.key: (header.base_timestamp_ms, header.max_timestamp_ms)
        for one, header in zip(untold, headers, strict=True)
    }


def _sampled(
    context: Context, looks: Sequence[SampledRange]
) -> dict[tuple[str, int], RecordSample]:
    groups: list[list[SampledRange]] = []
    size = SPLIT_BYTES
    for look in looks:
        if size + look.length > SPLIT_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(look)
        size += look.length
    found: dict[tuple[str, int], RecordSample] = {}

    def progress(done: int, total: int) -> None:
        context.progress("taking samples", done, total, "")

    small = sum(look.length for look in looks) <= WITHOUT_SPARK_BYTES
    for result in run_here_or_on_spark(
        context, groups, sampling.look_at_all, small=small, progress=progress
    ):
        for place, sample in result.items():
            found[place] = found.get(place, RecordSample()) + sample
    return found


def _add_lags(found: Statistics, bucket: Bucket, metadata: Path | None) -> None:
    committed = group_offsets.committed(bucket, metadata)
    found.lags = statistics.lags(committed.offsets, found.topics)
    found.lags_from, found.lags_age_s = committed.source, committed.age_s
    found.lags_known = committed.known


def _plan(context: Context, sample_bytes: int) -> Report:
    objects = read = requests = 0
    for view in read_all_views(context.bucket, context.chosen()):
        looks = sampling.sampled_ranges(context.bucket, view, sample_bytes) if sample_bytes else []
        objects += len(view.stored_ranges)
        read += sum(look.length for look in looks)
        requests += len(looks)
    facts = {"objects": objects, "bytes_read": read, "requests": requests}
    return Report("stats", facts, dry_run=True)


def prices_of(text: str) -> Prices:
    """Read `storage=0.023,put=0.005`; what is not named has its default."""
    found: dict[str, float] = {}
    for word in filter(None, text.split(",")):
        name, _, price = word.partition("=")
        try:
            found[name.strip()] = float(price)
        except ValueError:
            raise InvalidRequest(f"--prices {word}: write {name.strip()}=0.01") from None
    if unknown := set(found) - set(Prices._fields):
        raise InvalidRequest(
            f"--prices {sorted(unknown)[0]}: there are {', '.join(Prices._fields)}"
        )
    return Prices(**found)


def report_of(found: Statistics) -> Report:
    """A line per partition, the sums, and what deserves attention."""
    report = Report("stats")
    for topic in found.topics:
        report.rows += [_row(one) for one in topic.partitions]
    cost = [topic.monthly_cost(found.prices, 0.0) for topic in found.topics]
    gets = found.gets_per_day * statistics.DAYS_IN_MONTH / 1000 * found.prices.get
    growth = [topic.growth_per_day() or 0.0 for topic in found.topics]
    report.facts = {
        "topics": len(found.topics),
        "records": sum(topic.total("records") for topic in found.topics),
        "bytes": sum(topic.total("bytes") for topic in found.topics),
        "objects": found.objects,
        "objects_too_many": sum(topic.debt for topic in found.topics),
        "bytes_per_day": round(sum(growth)),
        "usd_per_month": round(sum(sum(one.values()) for one in cost) + gets, 4),
        "bytes_sampled": found.sampled_bytes,
    }
    if found.lags_age_s is not None:
        report.facts["offsets_age_s"] = found.lags_age_s
    for lag in found.lags:
        report.notes.append(
            f"group {lag.group}: {lag.records} behind in {lag.topic}, partition {lag.partition}"
        )
    report.notes.append(found.lags_from)
    if not found.gets_per_day:
        report.notes.append("requests of readers are not in the cost: --gets-per-day adds them")
    return report


def _row(one: statistics.PartitionStats) -> dict[str, Any]:
    top = one.sample.top(1) if one.sample.records > one.sample.without_key else []
    return {
        "topic": one.topic,
        "partition": one.partition,
        "start": one.start,
        "end": one.end,
        "records": one.records,
        "bytes": one.bytes,
        "objects": one.objects,
        "small": one.small,
        "first": iso_time(one.first_ms) if one.first_ms is not None else None,
        "last": iso_time(one.last_ms) if one.last_ms is not None else None,
        "codecs": "+".join(sorted(one.sample.codecs)) or None,
        "ratio": round(one.sample.ratio, 2) if one.sample.ratio else None,
        "top_key": top[0][0].decode(errors="replace") if top else None,
        "top_share": round(top[0][1], 3) if top else None,
    }
