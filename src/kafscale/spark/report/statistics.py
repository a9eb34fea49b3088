"""What topics hold and cost, from manifests alone: pure arithmetic.

Here: figures per partition and topic, growth by day, debts of small objects, lags, money.
Next door: samples of the contents (sampling.py), the job (jobs/stats.py), the page for people
(report_html.py).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from kafscale.log.formats import segment
from kafscale.log.protocol.survey import LiveSegment
from kafscale.spark.report.sampling import RecordSample
from kafscale.spark.views import PartitionView, StoredRange

DAY_MS: Final = 86_400_000
_SOONEST_MS: Final = 0
_LATEST_MS: Final = 253_402_300_799_000  # the last second of the year 9999
DAYS_IN_MONTH: Final = 30
GB: Final = 10**9


class Prices(NamedTuple):
    """In dollars: a gigabyte for a month, a thousand requests."""

    storage: float = 0.023
    put: float = 0.005
    get: float = 0.0004


@dataclass
class PartitionStats:
    """One partition."""

    topic: str
    partition: int
    start: int
    end: int
    records: int = 0
    bytes: int = 0
    objects: int = 0
    small: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    sample: RecordSample = field(default_factory=RecordSample)
    sizes: list[int] = field(default_factory=list)
    days: Counter[date] = field(default_factory=Counter)  # bytes by day of event time
    flushes_per_day: float = 0.0


@dataclass
class TopicStats:
    """One topic, all its partitions."""

    name: str
    topic_id: str
    target_bytes: int
    partitions: list[PartitionStats]

    def total(self, what: str) -> int:
        """The sum over partitions."""
        return sum(getattr(partition, what) for partition in self.partitions)

    @property
    def sample(self) -> RecordSample:
        """What was seen of all partitions."""
        return sum((partition.sample for partition in self.partitions), RecordSample())

    @property
    def days(self) -> Counter[date]:
        """Bytes by day."""
        return sum((partition.days for partition in self.partitions), Counter())

    @property
    def debt(self) -> int:
        """Objects more than their bytes need at the target size, log by log."""
        needed = sum(-(-partition.bytes // self.target_bytes) for partition in self.partitions)
        return max(0, self.total("objects") - needed)

    @property
    def skew(self) -> float | None:
        """Records of the fullest partition for each one it would have if all were alike."""
        counts = [partition.records for partition in self.partitions]
        return max(counts) * len(counts) / sum(counts) if any(counts) else None

    def span_ms(self) -> tuple[int, int] | None:
        """From the first event to the last."""
        firsts = [
            partition.first_ms for partition in self.partitions if partition.first_ms is not None
        ]
        lasts = [
            partition.last_ms for partition in self.partitions if partition.last_ms is not None
        ]
        return (min(firsts), max(lasts)) if firsts and lasts else None

    def growth_per_day(self) -> float | None:
        """Bytes of a day, over the last week that has any; the last, unfinished day apart."""
        days = self.days
        if not days:
            return None
        last = max(days)
        week = [last - timedelta(days=back) for back in range(1, 8)]
        whole = [day for day in week if day >= min(days)]
        if not whole:
            return float(days[last])
        return sum(days[day] for day in whole) / len(whole)

    def monthly_cost(self, prices: Prices, gets_per_day: float = 0.0) -> dict[str, float]:
        """What the bucket charges for a month at this pace."""
        puts = sum(partition.flushes_per_day for partition in self.partitions)
        return {
            "storage": self.total("bytes") / GB * prices.storage,
            "put": puts * DAYS_IN_MONTH / 1000 * prices.put,
            "get": gets_per_day * DAYS_IN_MONTH / 1000 * prices.get,
        }


class PartitionLag(NamedTuple):
    """How far a group is behind in one partition."""

    group: str
    topic: str
    partition: int
    committed: int
    end: int

    @property
    def records(self) -> int:
        """Records it has not read."""
        return max(0, self.end - self.committed)


Times = Mapping[str, tuple[int, int]]  # of the first batch of an object, in ms


def told(stored: StoredRange) -> bool:
    """Whether the log knows the times of an object; of a large flush only its batches do."""
    return (stored.min_timestamp_ms, stored.max_timestamp_ms) != segment.ANY_TIME


class FlushObject(NamedTuple):
    """An object that a broker wrote and no job has rewritten yet."""

    written_ms: int
    bytes: int  # of the batches of all lanes in it


def flushes_of(pieces: Iterable[LiveSegment]) -> dict[str, FlushObject]:
    """The flushes among the objects of a log."""
    return {
        piece.key: FlushObject(piece.modified_ms, sum(span.length for span in piece.spans))
        for piece in pieces
        if piece.kind == "flush" and piece.modified_ms is not None
    }


def partition_stats(
    view: PartitionView, flushes: Mapping[str, FlushObject], target_bytes: int, times: Times
) -> PartitionStats:
    """Figures of one partition; of a flush that it shares with others it pays its share.

    `times` are those of objects that tell none themselves.
    """
    stats = PartitionStats(view.topic, view.partition, view.start, view.end)
    written = [
        (flush.written_ms, stored.length / flush.bytes)
        for stored in view.stored_ranges
        if (flush := flushes.get(stored.key)) is not None
    ]
    for stored in view.stored_ranges:
        # What is below the log start lies in an object still, and is not read.
        stats.records += min(stored.records, stored.last + 1 - max(stored.first, view.start))
        stats.bytes += stored.length
        stats.objects += 1
        stats.small += stored.length < target_bytes // 2
        stats.sizes.append(stored.length)
        first, last = stored.min_timestamp_ms, stored.max_timestamp_ms
        if not told(stored):
            first, last = times.get(stored.key, (-1, -1))
        if not _SOONEST_MS <= first <= last <= _LATEST_MS:
            continue  # a time no calendar has
        stats.first_ms = first if stats.first_ms is None else min(first, stats.first_ms)
        stats.last_ms = last if stats.last_ms is None else max(last, stats.last_ms)
        stats.days += spread(stored.length, first, last)
    if written:
        # A burst is not a day's pace: what there is counts for a day at least.
        took_ms = max(written)[0] - min(written)[0]
        stats.flushes_per_day = sum(share for _, share in written) * DAY_MS / max(DAY_MS, took_ms)
    return stats


def spread(size: int, first_ms: int, last_ms: int) -> Counter[date]:
    """Share bytes out over the days they stem from."""
    days: Counter[date] = Counter()
    begin, end = first_ms // DAY_MS, last_ms // DAY_MS
    if end - begin > 3660:  # a clock that was wrong: not ten thousand days of nothing
        begin = end
    span = last_ms - first_ms + 1
    left = size
    for day in range(begin, end + 1):
        low, high = max(first_ms, day * DAY_MS), min(last_ms + 1, (day + 1) * DAY_MS)
        share = left if day == end else size * (high - low) // span
        days[datetime.fromtimestamp(day * 86400, UTC).date()] += share
        left -= share
    return days


def lags(
    committed: Mapping[tuple[str, str, int], tuple[int, str]], topics: Iterable[TopicStats]
) -> list[PartitionLag]:
    """Of every group in every partition; offsets of a topic's earlier life do not count."""
    group_lags = []
    known = {topic.name: topic for topic in topics}
    for (group, name, partition), (offset, topic_id) in sorted(committed.items()):
        topic = known.get(name)
        if topic is None or partition >= len(topic.partitions):
            continue
        if topic_id and topic_id != topic.topic_id:
            continue
        group_lags.append(
            PartitionLag(group, name, partition, offset, topic.partitions[partition].end)
        )
    return group_lags


@dataclass
class Statistics:
    """Everything that was found."""

    store: str
    taken_at: str
    topics: list[TopicStats]
    prices: Prices
    gets_per_day: float = 0.0
    lags: list[PartitionLag] = field(default_factory=list)
    lags_from: str = ""  # where group offsets come from, or why there are none
    lags_known: bool = False
    lags_age_s: int | None = None  # of offsets that are not as of now
    sampled_bytes: int = 0
    objects: int = 0  # that hold any of it, each once
