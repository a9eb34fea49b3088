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
from kafscale.spark.source.plan.splits import SPLIT_BYTES
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
    statistics_read = gather(
        context,
        sample_bytes=sample,
        metadata=Path(args.metadata) if args.metadata else None,
        target_bytes=args.target_bytes,
        prices=prices_of(args.prices),
        gets_per_day=args.gets_per_day,
    )
    report = report_of(statistics_read)
    if args.html:
        from kafscale.spark.report.html import page

        Path(args.html).write_text(page(statistics_read), "utf-8")
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
    topics = [
        _topic(bucket, partition, flushes, by_topic[partition.name], target_bytes)
        for partition in chosen
    ]
    looks = [look for view in views for look in sampling.sampled_ranges(bucket, view, sample_bytes)]
    samples = _sampled(context, looks) if sample_bytes else {}
    for partition in (partition for topic in topics for partition in topic.partitions):
        partition.sample = samples.get((partition.topic, partition.partition), RecordSample())
    gathered = Statistics(
        bucket.url,
        iso_time(bucket.clock.now_ms()),
        topics,
        prices or Prices(),
        gets_per_day,
        sampled_bytes=sum(look.length for look in looks) if sample_bytes else 0,
        objects=len({partition.key for view in views for partition in view.stored_ranges}),
    )
    _add_lags(gathered, bucket, metadata)
    return gathered


def _topic(
    bucket: Bucket,
    topic: TopicDescriptor,
    flushes: Mapping[str, FlushObject],
    views: Sequence[PartitionView],
    target_bytes: int | None,
) -> TopicStats:
    settings = TopicSettings.of(topic.configs, TopicDefaults())
    target = target_bytes or settings.segment_bytes
    times = _times(bucket, [stored for view in views for stored in view.stored_ranges])
    partitions = [statistics.partition_stats(view, flushes, target, times) for view in views]
    return TopicStats(topic.name, topic.topic_id, target, partitions)


def _times(bucket: Bucket, stored_ranges: Sequence[StoredRange]) -> dict[str, tuple[int, int]]:
    """The times of large flushes that were not rolled up yet, by their first batch."""
    untold = [stored for stored in stored_ranges if not statistics.told(stored)]

    async def look(store: ObjectStore) -> list[memoryview]:
        return await await_limited(
            store.read(stored.key, stored.start, batch.HEADER_SIZE) for stored in untold
        )

    headers = [batch.read_header(found) for found in bucket.run(look)]
    return {
        stored.key: (header.base_timestamp_ms, header.max_timestamp_ms)
        for stored, header in zip(untold, headers, strict=True)
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
    samples: dict[tuple[str, int], RecordSample] = {}

    def progress(done: int, total: int) -> None:
        context.progress("taking samples", done, total, "")

    small = sum(look.length for look in looks) <= WITHOUT_SPARK_BYTES
    for result in run_here_or_on_spark(
        context, groups, sampling.look_at_all, small=small, progress=progress
    ):
        for place, sample in result.items():
            samples[place] = samples.get(place, RecordSample()) + sample
    return samples


def _add_lags(gathered: Statistics, bucket: Bucket, metadata: Path | None) -> None:
    committed = group_offsets.committed(bucket, metadata)
    gathered.lags = statistics.lags(committed.offsets, gathered.topics)
    gathered.lags_from, gathered.lags_age_s = committed.source, committed.age_s
    gathered.lags_known = committed.known


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
    prices: dict[str, float] = {}
    for word in filter(None, text.split(",")):
        name, _, price = word.partition("=")
        try:
            prices[name.strip()] = float(price)
        except ValueError:
            raise InvalidRequest(f"--prices {word}: write {name.strip()}=0.01") from None
    if unknown := set(prices) - set(Prices._fields):
        raise InvalidRequest(
            f"--prices {sorted(unknown)[0]}: there are {', '.join(Prices._fields)}"
        )
    return Prices(**prices)


def report_of(gathered: Statistics) -> Report:
    """A line per partition, the sums, and what deserves attention."""
    report = Report("stats")
    for topic in gathered.topics:
        report.rows += [_row(one) for one in topic.partitions]
    cost = [topic.monthly_cost(gathered.prices, 0.0) for topic in gathered.topics]
    gets = gathered.gets_per_day * statistics.DAYS_IN_MONTH / 1000 * gathered.prices.get
    growth = [topic.growth_per_day() or 0.0 for topic in gathered.topics]
    report.facts = {
        "topics": len(gathered.topics),
        "records": sum(topic.total("records") for topic in gathered.topics),
        "bytes": sum(topic.total("bytes") for topic in gathered.topics),
        "objects": gathered.objects,
        "objects_too_many": sum(topic.debt for topic in gathered.topics),
        "bytes_per_day": round(sum(growth)),
        "usd_per_month": round(sum(sum(one.values()) for one in cost) + gets, 4),
        "bytes_sampled": gathered.sampled_bytes,
    }
    if gathered.lags_age_s is not None:
        report.facts["offsets_age_s"] = gathered.lags_age_s
    for lag in gathered.lags:
        report.notes.append(
            f"group {lag.group}: {lag.records} behind in {lag.topic}, partition {lag.partition}"
        )
    report.notes.append(gathered.lags_from)
    if not gathered.gets_per_day:
        report.notes.append("requests of readers are not in the cost: --gets-per-day adds them")
    return report


def _row(partition: statistics.PartitionStats) -> dict[str, Any]:
    top = partition.sample.top(1) if partition.sample.records > partition.sample.without_key else []
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "start": partition.start,
        "end": partition.end,
        "records": partition.records,
        "bytes": partition.bytes,
        "objects": partition.objects,
        "small": partition.small,
        "first": iso_time(partition.first_ms) if partition.first_ms is not None else None,
        "last": iso_time(partition.last_ms) if partition.last_ms is not None else None,
        "codecs": "+".join(sorted(partition.sample.codecs)) or None,
        "ratio": round(partition.sample.ratio, 2) if partition.sample.ratio else None,
        "top_key": top[0][0].decode(errors="replace") if top else None,
        "top_share": round(top[0][1], 3) if top else None,
    }
