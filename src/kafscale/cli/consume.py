"""`kafscale consume`: a topic to standard output, without a consumer group."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from kafscale.cli.errors import CommandError, UsageError
from kafscale.cli.kafka import add_client_arguments, client_settings, open_client, refusal
from kafscale.cli.leaders import PASSING
from kafscale.cli.output import counting
from kafscale.cli.record_format import Format, Record, as_json, compile_format
from kafscale.cli.topics import describe_topic, offset_ranges

_BATCH: Final = 1000
_LOOK_UP_EVERY_S: Final = 0.25  # how long Ctrl-C may have to wait for the client library

Ranges = Mapping[int, tuple[int, int]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-p", "--partition", type=int, metavar="N", help="else all of them")
    parser.add_argument(
        "-o",
        "--offset",
        default="beginning",
        metavar="WHERE",
        help="beginning, end, an offset, or -N for the last N of each partition",
    )
    parser.add_argument("-c", "--count", type=int, metavar="N", help="stop after N records")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="wait for more at the end instead of stopping"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--format",
        default=r"%v\n",
        metavar="TEXT",
        help="%%t topic, %%p partition, %%o offset, %%k key, %%v value, %%T timestamp, %%h headers",
    )
    shape.add_argument("--json", action="store_true", help="one line of JSON per record")
    add_client_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print records until the end, the count, or Ctrl-C."""
    shape = as_json if args.json else compile_format(args.format)
    if args.count is not None and args.count < 1:
        raise UsageError(f"--count: expected 1 or more, found {args.count}")
    settings = client_settings(args)
    ranges = _ranges(open_client(AdminClient, settings), args.topic, args.partition)
    starts = {at: start_offset(args.offset, at, *bounds) for at, bounds in ranges.items()}
    consumer = Consumer(
        settings
        | {
            # The library insists on a name; nothing is ever committed under it.
            "group.id": "kafscale-cli",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.assign([TopicPartition(args.topic, at, start) for at, start in starts.items()])
        ends = {} if args.follow else {at: end for at, (_, end) in ranges.items()}
        records = _records(consumer, starts, ends, args.follow)
        left = None if args.follow else sum(end - starts[at] for at, end in ends.items())
        _print(records, shape, args.count, args.topic, args.count or left)
    finally:
        consumer.close()
    return 0


def _ranges(admin: AdminClient, topic: str, partition: int | None) -> Ranges:
    known = [one.id for one in describe_topic(admin, topic).partitions]
    if partition is None:
        return offset_ranges(admin, topic, known)
    if partition not in known:
        raise CommandError(f"{topic}: no partition {partition}, only 0 to {max(known)}")
    return offset_ranges(admin, topic, [partition])


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


def _records(
    consumer: Consumer, starts: Mapping[int, int], ends: Mapping[int, int], follow: bool
) -> Iterator[list[Record]]:
    """Yield what arrives in batches; stop where each partition ended when we began."""
    waiting = {at for at, end in ends.items() if starts[at] < end}
    while waiting or follow:
        batch: list[Record] = []
        for message in consumer.consume(_BATCH, timeout=_LOOK_UP_EVERY_S):
            if message.error() is not None:
                if _is_end(message):
                    # The last offsets need not be records: a marker, or compacted away.
                    waiting.discard(message.partition())
                continue
            record = _record(message)
            if follow or record.offset < ends[record.partition]:
                batch.append(record)
            if not follow and record.offset + 1 >= ends[record.partition]:
                waiting.discard(record.partition)
        if batch:
            yield batch


def _is_end(message: Any) -> bool:
    """Whether an error only says that a partition has no more; raises if waiting is no use."""
    error = message.error()
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.fatal() or (message.topic() is not None and error.code() not in PASSING):
        raise refusal(f"{message.topic()}/{message.partition()}", error)
    # Of the group, which is not used here, or over soon: the library tries again by itself.
    return False


def _record(message: Any) -> Record:  # typed as if every field of a record could be missing
    kind, timestamp_ms = message.timestamp()
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.key(),
        message.value(),
        message.headers() or (),
    )


def _print(
    batches: Iterator[list[Record]],
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
