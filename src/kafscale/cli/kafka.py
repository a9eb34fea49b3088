"""Talking to a broker as any Kafka client does: options, connections, errors in one line.

The commands on topics use confluent-kafka like everybody else's programs; they have no door of
their own into the broker.
"""

import argparse
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafscale.cli.errors import CommandError, UsageError

T = TypeVar("T")

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
ANSWER_WITHIN_S: Final = 15.0
_CONNECT_WITHIN_S: Final = 5.0


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every client needs."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("KAFSCALE_BOOTSTRAP") or DEFAULT_BOOTSTRAP,
        help=f"where to find a broker (KAFSCALE_BOOTSTRAP, else {DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument(
        "-X",
        dest="properties",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any setting of librdkafka",
    )


def client_settings(args: argparse.Namespace, **more: object) -> dict[str, Any]:
    """Give the settings of a confluent-kafka client, once a broker has been seen to listen."""
    check_somebody_listens(args.bootstrap)
    settings: dict[str, Any] = {
        "bootstrap.servers": args.bootstrap,
        "client.id": "kafscale-cli",
        "log_level": 0,  # what matters comes back as an error; the rest would spoil the output
        **more,
    }
    for pair in args.properties:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"-X: expected KEY=VALUE, found {pair!r}")
        settings[key] = value
    return settings


def check_somebody_listens(bootstrap: str) -> None:
    """Raise CommandError at once instead of after librdkafka's patience has run out."""
    reason = "no address given"
    for address in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, port = _split_address(address)
        try:
            socket.create_connection((host, port), timeout=_CONNECT_WITHIN_S).close()
        except OSError as bad:
            reason = bad.strerror or str(bad)
        else:
            return
    raise CommandError(f"no broker at {bootstrap}: {reason} (`kafscale serve` starts one)")


def _split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--bootstrap: expected HOST:PORT, found {address!r}")
    return host.strip("[]"), int(port)


def open_client(kind: Callable[[dict[str, Any]], T], settings: dict[str, Any]) -> T:
    """Make a client; settings that its library does not take are the caller's mistake."""
    try:
        return kind(settings)
    except KafkaException as bad:
        raise UsageError(f"-X: {refusal('', bad)}") from bad


def admin_client(args: argparse.Namespace) -> AdminClient:
    """Connect for administration."""
    return open_client(AdminClient, client_settings(args))


def wait(subject: str, answer: "Future[Any]", tolerated: Iterable[int] = ()) -> Any:
    """Give what was answered, None for errors that are fine, or raise the refusal."""
    try:
        return answer.result()
    except KafkaException as bad:
        if bad.args[0].code() in tolerated:
            return None
        raise refusal(subject, bad) from bad


def wait_for_all(answers: "Mapping[str, Future[Any]]", tolerated: Iterable[int] = ()) -> None:
    """Wait for every answer; one that was refused does not hide what became of the others."""
    refusals = []
    for subject, answer in answers.items():
        try:
            wait(subject, answer, tolerated)
        except CommandError as bad:
            refusals.append(str(bad))
    if refusals:
        raise CommandError("; ".join(refusals))


def refusal(subject: str, bad: KafkaException | KafkaError) -> CommandError:
    """Turn a client library's error into our one line."""
    error = bad.args[0] if isinstance(bad, KafkaException) and bad.args else bad
    text = (error.str() if isinstance(error, KafkaError) else str(error)).removeprefix("Broker: ")
    return CommandError(f"{subject}: {text}" if subject else text)
