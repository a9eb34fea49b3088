"""`kafscale produce`: lines in, records out.

Next door: sending the records (admin/records/producing.py).
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO, Final

from kafscale.admin.records.producing import Delivery, OutgoingRecord, open_producer
from kafscale.cli.brokers.client_arguments import (
    add_client_arguments,
    client_settings,
    using_properties,
)
from kafscale.cli.brokers.records.stalls import StallWatch, ask_brokers
from kafscale.cli.terminal.errors import Stopped, UsageError
from kafscale.cli.terminal.output import counting
from kafscale.settings.values import MAX_INT32

_GIVE_UP_AFTER_MS: Final = 60_000
_LAST_RECORDS_S: Final = 2.0  # after Ctrl-C


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-p",
        "--partition",
        type=int,
        metavar="N",
        help="the partition (default: chosen by the key)",
    )
    parser.add_argument(
        "-k", "--key-separator", metavar="TEXT", help="the text between key and value in a line"
    )
    parser.add_argument(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a header of every record; may be repeated",
    )
    parser.add_argument("--file", metavar="FILE", help="read this file instead of standard input")
    parser.add_argument(
        "-z", "--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none"
    )
    parser.add_argument("--acks", choices=("all", "1", "0"), default="all")
    add_client_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Produce every line and wait until all are acknowledged."""
    separator = _separator(args.key_separator)
    if args.partition is not None and not 0 <= args.partition <= MAX_INT32:
        raise UsageError(f"--partition: expected 0 to {MAX_INT32}, found {args.partition}")
    headers = [_header(pair) for pair in args.header]
    wanted = {
        "acks": args.acks,
        "compression.type": args.compression,
        "message.timeout.ms": _GIVE_UP_AFTER_MS,
    }
    with _source(args.file) as source:  # opened first: a missing file needs no broker
        settings = client_settings(args, **wanted)
        with using_properties():
            producer = open_producer(settings)
        delivery = Delivery(producer, args.topic, args.partition, headers)
        with (
            counting(f"records to {args.topic}", None, shown=not source.isatty()) as count,
            StallWatch(delivery, partial(ask_brokers, settings)) as stall,
        ):
            try:
                delivery.send(read_lines(source, separator), count)
                delivery.flush()
            except KeyboardInterrupt:
                _stop(delivery, stall)
                raise
    delivery.check()
    return 0


def _stop(delivery: Delivery, stall: StallWatch) -> None:
    """After Ctrl-C: what was typed is sent, unless brokers acknowledge nothing anyway."""
    if not stall.reason:
        delivery.flush(_LAST_RECORDS_S)
    if delivery.waiting:
        waiting = delivery.waiting
        delivery.abandon()
        reason = f": {stall.reason}" if stall.reason else ""
        raise Stopped(f"stopped; {waiting} records were not acknowledged{reason}")


def read_lines(source: Iterable[bytes], separator: bytes | None) -> Iterator[OutgoingRecord]:
    """Split a stream into records: one per line, key first if there is a separator."""
    for raw in source:
        text = raw.removesuffix(b"\n")
        if separator is None:
            yield OutgoingRecord(None, text)
            continue
        key, found, value = text.partition(separator)
        yield OutgoingRecord(key, value) if found else OutgoingRecord(None, text)


@contextmanager
def _source(path: str | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdin.buffer
        return
    with open(path, "rb") as file:
        yield file


def _separator(text: str | None) -> bytes | None:
    if text == "":
        raise UsageError("--key-separator: expected at least one character, found none")
    return _typed(text) if text is not None else None


def _header(pair: str) -> tuple[str, str | bytes | None]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"--header: expected NAME=VALUE, found {pair!r}")
    return name, _typed(value)


def _typed(text: str) -> bytes:
    """Give the bytes of an argument, whether they are UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")
