"""`kafscale produce`: lines in, records out."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafscale.cli.errors import CommandError, UsageError
from kafscale.cli.kafka import add_client_arguments, client_settings, open_client, refusal
from kafscale.cli.output import Counter, counting
from kafscale.settings.values import MAX_INT32

_GIVE_UP_AFTER_MS: Final = 60_000
_REPORT_EVERY: Final = 1000
_ANY_PARTITION: Final = -1


class Line(NamedTuple):
    """One record to write."""

    key: bytes | None
    value: bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-p", "--partition", type=int, metavar="N", help="else chosen by the key")
    parser.add_argument(
        "-k", "--key-separator", metavar="TEXT", help="what stands between key and value in a line"
    )
    parser.add_argument(
        "-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="on every record"
    )
    parser.add_argument("--file", metavar="FILE", help="read this instead of standard input")
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
    settings = {
        "acks": args.acks,
        "compression.type": args.compression,
        "message.timeout.ms": _GIVE_UP_AFTER_MS,
    }
    with _source(args.file) as source:  # opened first: a missing file needs no broker
        producer = open_client(Producer, client_settings(args, **settings))
        delivery = Delivery(producer, args.topic, args.partition, headers)
        with counting(f"records to {args.topic}", None, shown=not source.isatty()) as count:
            try:
                delivery.send(read_lines(source, separator), count)
            finally:  # after Ctrl-C too: what was typed is sent
                producer.flush()
    delivery.check()
    return 0


def read_lines(source: Iterable[bytes], separator: bytes | None) -> Iterator[Line]:
    """Split a stream into records: one per line, key first if there is a separator."""
    for raw in source:
        text = raw.removesuffix(b"\n")
        if separator is None:
            yield Line(None, text)
            continue
        key, found, value = text.partition(separator)
        yield Line(key, value) if found else Line(None, text)


class Delivery:
    """Sends lines and remembers what became of them."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partition: int | None,
        headers: list[tuple[str, str | bytes | None]],
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = _ANY_PARTITION if partition is None else partition
        self._headers = headers
        self._sent = 0
        self._failed = 0
        self._first_error: KafkaError | None = None

    def send(self, lines: Iterable[Line], count: Counter) -> None:
        """Hand every line to the client library, waiting where its queue is full."""
        for line in lines:
            while not self._try(line):
                self._producer.poll(0.1)
            self._producer.poll(0)
            self._sent += 1
            if self._sent % _REPORT_EVERY == 0:
                count(self._sent)

    def check(self) -> None:
        """Raise CommandError unless every line was acknowledged."""
        if self._first_error is not None:
            raise CommandError(
                f"{self._failed} of {self._sent} records were not delivered to {self._topic}: "
                f"{self._first_error.str()}"
            )

    def _try(self, line: Line) -> bool:
        try:
            self._producer.produce(
                self._topic,
                value=line.value,
                key=line.key,
                partition=self._partition,
                headers=self._headers,
                on_delivery=self._note,
            )
        except BufferError:
            return False
        except KafkaException as bad:
            raise refusal(self._topic, bad) from bad
        return True

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed += 1
            self._first_error = self._first_error or error


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
    """The bytes of an argument, be they UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")
