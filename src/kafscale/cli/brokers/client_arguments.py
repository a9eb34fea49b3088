"""Options of commands that talk to brokers, and the client that they stand for.

Here: parsing. The commands are Kafka clients like all others: they have no other way to a broker.
Next door: connections and refusals (admin/brokers/client.py).
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kafscale.admin.brokers import client
from kafscale.admin.brokers.client import KafkaAdmin
from kafscale.admin.errors import InvalidArgument
from kafscale.cli.terminal.errors import UsageError

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every client needs."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("KAFSCALE_BOOTSTRAP") or DEFAULT_BOOTSTRAP,
        help=f"address of a broker (default: KAFSCALE_BOOTSTRAP, else {DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument(
        "-X",
        dest="properties",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any setting of librdkafka; may be repeated",
    )


def client_settings(args: argparse.Namespace, **more: object) -> dict[str, Any]:
    """Give the settings of a client, once a broker accepts connections."""
    check_listener(args.bootstrap)
    properties: dict[str, str] = {}
    for pair in args.properties:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"-X: expected KEY=VALUE, found {pair!r}")
        properties[key] = value
    return client.client_settings(args.bootstrap, "kafscale-cli", properties, **more)


def check_listener(bootstrap: str) -> None:
    """Raise AdminError at once if no broker listens there."""
    addresses = filter(None, (part.strip() for part in bootstrap.split(",")))
    client.require_listener(bootstrap, [_split_address(address) for address in addresses])


def _split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--bootstrap: expected HOST:PORT, found {address!r}")
    return host.strip("[]"), int(port)


@contextmanager
def using_properties() -> Iterator[None]:
    """Blame -X for settings that the client library does not take."""
    try:
        yield
    except InvalidArgument as bad:
        raise UsageError(f"-X: {bad}") from bad


def admin_client(args: argparse.Namespace) -> KafkaAdmin:
    """Connect for administration."""
    with using_properties():
        return client.open_admin(client_settings(args))


def parse_pairs(option: str, pairs: list[str]) -> dict[str, str]:
    """Read KEY=VALUE arguments."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{option}: expected KEY=VALUE, found {pair!r}")
        parsed[key] = value
    return parsed
