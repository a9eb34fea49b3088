"""`kafscale consume`: a topic to standard output, without a consumer group.

Next door: reading the records (admin/records/consuming.py), printing one (record_format.py).
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing

from kafscale.admin.brokers import topics
from kafscale.admin.brokers.client import KafkaAdmin, open_admin
from kafscale.admin.brokers.topics import OffsetRanges
from kafscale.admin.records.consuming import ConsumedRecord, read_records
from kafscale.cli.brokers.client_arguments import (
    add_client_arguments,
    client_settings,
    using_properties,
)
from kafscale.cli.brokers.records.record_format import Format, as_json, compile_format
from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.cli.terminal.output import counting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partition", type=int, metavar="N", help="read one partition (default: all)"
    )
    parser.add_argument(
        "-o",
        "--offset",
        default="beginning",
        metavar="WHERE",
        help="where to start: beginning, end, an offset, or -N for the last N of each partition",
    )
    parser.add_argument("-c", "--count", type=int, metavar="N", help="stop after N records")
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="at the end wait for more records instead of stopping",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--format",
        default=r"%v\n",
        metavar="TEXT",
        help="%%t topic, %%p partition, %%o offset, %%k key, %%v value, %%T time, %%h headers; "
        "a terminal gets control characters escaped, a file or pipe gets the bytes as they are",
    )
    shape.add_argument("--json", action="store_true", help="print one line of JSON per record")
    add_client_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print records until the end, the count, or Ctrl-C."""
    is_terminal = sys.stdout.isatty()
    shape = as_json if args.json else compile_format(args.format, for_terminal=is_terminal)
    if args.count is not None and args.count < 1:
        raise UsageError(f"--count: expected 1 or more, found {args.count}")
    settings = client_settings(args)
    with using_properties():
        admin = open_admin(settings)
    ranges = _ranges(admin, args.topic, args.partition)
    starts = {at: start_offset(args.offset, at, *bounds) for at, bounds in ranges.items()}
    ends = {} if args.follow else {at: end for at, (_, end) in ranges.items()}
    expected = None if args.follow else sum(end - starts[at] for at, end in ends.items())
    with closing(read_records(settings, args.topic, starts, ends, args.follow)) as batches:
        _print(batches, shape, args.count, args.topic, args.count or expected)
    return 0


def _ranges(admin: KafkaAdmin, topic: str, partition: int | None) -> OffsetRanges:
    known = topics.list_partitions(admin, topic)
    if partition is None:
        return topics.list_offset_ranges(admin, topic, known)
    if partition not in known:
        raise CommandError(f"{topic}: no partition {partition}, only 0 to {max(known)}")
    return topics.list_offset_ranges(admin, topic, [partition])


def start_offset(where: str, partition: int, earliest: int, end: int) -> int:
    """Find the first offset to read in a partition that holds `earliest` up to before `end`."""
    match where:
        case "beginning":
            return earliest
        case "end":
            return end
    try:
        number = int(where)
    except ValueError:
        raise UsageError(
            f"--offset: expected beginning, end or a number, found {where!r}"
        ) from None
    if where.startswith("-"):
        return max(earliest, end + number)
    if not earliest <= number <= end:
        raise CommandError(
            f"--offset: partition {partition} has offsets {earliest} to {end}, not {number}"
        )
    return number


def _print(
    batches: Iterator[list[ConsumedRecord]],
    shape: Format,
    count: int | None,
    topic: str,
    expected: int | None,
) -> None:
    done = 0
    out = sys.stdout.buffer
    with counting(f"records from {topic}", expected, shown=not sys.stdout.isatty()) as show:
        for batch in batches:
            wanted = batch if count is None else batch[: count - done]
            out.writelines(map(shape, wanted))
            out.flush()
            done += len(wanted)
            show(done)
            if done == count:
                return
