"""Options for the broker's settings, shared by the commands that read them.

Next door: what the settings are (settings/config.py).
"""

import argparse
import os
from pathlib import Path
from typing import Final

from kafscale.cli.terminal.errors import UsageError
from kafscale.settings.config import Config
from kafscale.settings.loading import load
from kafscale.settings.sources import FLAGS

_SWITCHES: Final = {"--allow-insecure-bind", "--memory"}
_METAVARS: Final = {
    "id": "ID",
    "host": "HOST",
    "port": "PORT",
    "dir": "DIR",
    "level": "LEVEL",
    "listeners": "LIST",
}
_MEANINGS: Final = {
    "--broker-id": "number of the broker",
    "--host": "address to listen on",
    "--port": "port for Kafka clients",
    "--listeners": "addresses to listen on, as NAME://HOST:PORT,...",
    "--advertised-listeners": "addresses that clients are told, as NAME://HOST:PORT,...",
    "--metrics-port": "port for metrics and health",
    "--advertised-host": "host name that clients are told",
    "--advertised-port": "port that clients are told",
    "--allow-insecure-bind": "allow other machines to connect without authentication",
    "--data-dir": "folder for metadata and, without a bucket, for objects",
    "--bucket": "bucket for objects",
    "--namespace": "first part of every object key",
    "--memory": "keep objects in memory only",
    "--log-level": "debug, info, warn or error",
    "--log-format": "text or json",
}


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --config, one option per common setting, and --set for all the others."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="a YAML file with settings")
    for flag, key in FLAGS.items():
        if flag in _SWITCHES:
            parser.add_argument(flag, action="store_true", default=None, help=_help(flag, key))
        else:
            metavar = _METAVARS.get(flag.rpartition("-")[2], "VALUE")
            parser.add_argument(flag, metavar=metavar, help=_help(flag, key))
    add_set_argument(parser)


def add_set_argument(parser: argparse.ArgumentParser) -> None:
    """Add --set, for settings without an option of their own."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting; may be repeated",
    )


def _help(flag: str, key: str) -> str:
    return f"{_MEANINGS[flag]} ({key})"


def config_of(args: argparse.Namespace) -> Config:
    """Load the settings from these arguments, the environment and the file."""
    flags = set_by(args)
    for flag in FLAGS:
        flags[flag] = getattr(args, flag.removeprefix("--").replace("-", "_"))
    return load(args.config, os.environ, flags)


def given_settings(args: argparse.Namespace) -> dict[str, str]:
    """The settings that were given as options, by their keys, for another process."""
    given = {key: str(value) for key, value in set_by(args).items()}
    for flag, key in FLAGS.items():
        value = getattr(args, flag.removeprefix("--").replace("-", "_"))
        if value is not None:
            given[key] = str(value).lower() if value is True else str(value)
    return given


def set_by(args: argparse.Namespace) -> dict[str, object]:
    """Read every --set."""
    given: dict[str, object] = {}
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set: expected KEY=VALUE, found {pair!r}")
        given[key] = value
    return given
