"""Options of commands that talk to brokers, and the client that they stand for.

Here: parsing. The commands are Kafka clients like all others: they have no other way to a broker,
and log in like all others.
Next door: connections and refusals (admin/brokers/client.py), where passwords come from
(cli/terminal/passwords.py).
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafscale.admin.brokers import client
from kafscale.admin.brokers.client import KafkaAdmin
from kafscale.admin.errors import InvalidArgument
from kafscale.cli.terminal.errors import UsageError
from kafscale.cli.terminal.passwords import read_password

_DESTINATIONS: Final = {"--properties": "properties_file"}  # -X has the shorter name
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
    for option, variable, metavar, meaning in (
        ("--user", "KAFSCALE_USER", "NAME", "log in as this user, by SCRAM over TLS"),
        ("--password-file", "KAFSCALE_PASSWORD_FILE", "FILE", "holds the password of the user"),
        ("--ca", "KAFSCALE_CA", "FILE", "authorities that sign brokers' certificates: use TLS"),
        ("--properties", "KAFSCALE_PROPERTIES", "FILE", "settings of librdkafka, KEY=VALUE each"),
    ):
        parser.add_argument(
            option,
            dest=_DESTINATIONS.get(option),
            metavar=metavar,
            default=os.environ.get(variable) or None,
            help=f"{meaning} (default: {variable})",
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
    return client.client_settings(args.bootstrap, "kafscale-cli", client_properties(args), **more)


def client_properties(args: argparse.Namespace) -> dict[str, str]:
    """Give what librdkafka needs to know besides the address, in its words."""
    return _security(args) | _given_properties(args)


def tls_settings(args: argparse.Namespace) -> dict[str, str]:
    """Give the settings that say which certificates to trust, of brokers and of their pages."""
    return _trusted(args) | _given_properties(args)


def _given_properties(args: argparse.Namespace) -> dict[str, str]:
    properties = _read_properties(Path(args.properties_file)) if args.properties_file else {}
    for pair in args.properties:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"-X: expected KEY=VALUE, found {pair!r}")
        properties[key] = value
    return properties


def _trusted(args: argparse.Namespace) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": args.ca} if args.ca else {}


def _security(args: argparse.Namespace) -> dict[str, str]:
    """How to log in, in librdkafka's words."""
    found = _trusted(args)
    if args.user:
        password = read_password(
            args.password_file, "KAFSCALE_PASSWORD", f"Password of {args.user}: "
        )
        found |= {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": args.user,
            "sasl.password": password,
        }
    return found


def _read_properties(file: Path) -> dict[str, str]:
    """The settings of a file; a line that begins with # is a comment."""
    found: dict[str, str] = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{file}, line {number}: expected KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


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
