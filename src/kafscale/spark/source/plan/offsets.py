"""Offsets of many partitions at once: where to begin, where to end, how far to go.

Here: pure arithmetic on `{topic: {partition: next offset}}`, the form of the
checkpoints of Spark's Kafka source. Next door: offsets by time (times.py).
Never here: the bucket, Spark.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafscale.model.errors import KafscaleError
from kafscale.spark.source.plan.options import EARLIEST, LATEST, BadOption, OffsetRule
from kafscale.spark.views import PartitionView

TopicPartition = tuple[str, int]  # topic, partition
PartitionOffsets = dict[TopicPartition, int]
FindTime = Callable[[PartitionView, int], int | None]  # the first offset not older, if any


class DataLost(KafscaleError):
    """Records that were to be read are no longer there."""


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The form in which Spark keeps them."""
    rows: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        rows.setdefault(topic, {})[str(partition)] = offset
    return rows


def from_json(rows: Mapping[str, Mapping[str, Any]]) -> PartitionOffsets:
    """Read them back."""
    return {(topic, int(p)): int(o) for topic, row in rows.items() for p, o in row.items()}


def resolve(
    rule: OffsetRule,
    views: Iterable[PartitionView],
    find_time: FindTime,
    *,
    side: str,
    no_match_is_latest: bool,
) -> PartitionOffsets:
    """Turn a rule into offsets; `side` is starting or ending."""
    name = rule.option(side)
    resolved: PartitionOffsets = {}
    for view in views:
        place = (view.topic, view.partition)
        match rule.kind:
            case "earliest":
                resolved[place] = view.start
            case "latest":
                resolved[place] = view.end
            case "offsets":
                number = _named(rule, view, name)
                resolved[place] = {EARLIEST: view.start, LATEST: view.end}.get(number, number)
            case "timestamp" | "timestamps":
                by_time = rule.kind == "timestamp"
                time_ms = rule.timestamp_ms if by_time else _named(rule, view, name)
                offset = find_time(view, time_ms)
                if offset is None and not no_match_is_latest:
                    raise BadOption(
                        f"{name}: {view.topic}-{view.partition} has no record at or after "
                        f"{time_ms} (startingOffsetsByTimestampStrategy=latest begins at its end)"
                    )
                resolved[place] = view.end if offset is None else offset
    return resolved


def refuse_unknown_partitions(rule: OffsetRule, views: Iterable[PartitionView], side: str) -> None:
    """Refuse a rule that names partitions which the query does not read: mostly a typing error."""
    known = {(view.topic, view.partition) for view in views}
    for topic, row in rule.numbers.items():
        for partition in row:
            if (topic, partition) not in known:
                raise BadOption(f"{rule.option(side)}: the query does not read {topic}-{partition}")


def _named(rule: OffsetRule, view: PartitionView, name: str) -> int:
    try:
        return rule.numbers[view.topic][view.partition]
    except KeyError:
        raise BadOption(
            f"{name}: nothing said about {view.topic}-{view.partition}, and all are to be named "
            f"({EARLIEST} is the earliest offset, {LATEST} the latest)"
        ) from None


def within(
    view: PartitionView, first: int, until: int, *, fail_on_data_loss: bool
) -> tuple[int, int]:
    """The part of a window that exists; what does not is lost data."""
    if (first < view.start or max(first, until) > view.end) and fail_on_data_loss:
        lost = (
            f"offsets {first} to {min(view.start, until) - 1} have been deleted"
            if first < view.start
            else f"offset {max(first, until)} was asked for and the log ends at {view.end}"
        )
        raise DataLost(
            f"{view.topic}-{view.partition}: {lost}; the log starts at {view.start} "
            "(failOnDataLoss=false reads what is there)"
        )
    first = min(max(first, view.start), view.end)
    return first, max(first, min(until, view.end))


def limited(start: PartitionOffsets, latest: PartitionOffsets, most: int) -> PartitionOffsets:
    """Go at most `most` offsets further in all, each partition in proportion to what it has."""
    waiting = {place: max(0, end - start.get(place, end)) for place, end in latest.items()}
    total = sum(waiting.values())
    if not most or total <= most:
        return latest
    shares = {place: most * count // total for place, count in waiting.items()}
    # What rounding left over goes to those that have more, one each: every query moves on.
    left = most - sum(shares.values())
    for place in sorted(waiting, key=lambda place: (-waiting[place], place)):
        if left and shares[place] < waiting[place]:
            shares[place] += 1
            left -= 1
    return {place: latest[place] - waiting[place] + shares[place] for place in latest}
