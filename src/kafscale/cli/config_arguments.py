"""Options that stand for the broker's configuration, shared by commands that read it.

Next door: what the settings are (settings/config.py).
"""

import argparse
import os
from pathlib import Path
from typing import Final

from kafscale.cli.errors import UsageError
from kafscale.settings.config import Config, load
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


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --config, one option per common setting, and --set for all the others."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="a YAML file of settings")
    for flag, key in FLAGS.items():
        if flag in _SWITCHES:
            parser.add_argument(flag, action="store_true", default=None, help=key)
        else:
            metavar = _METAVARS.get(flag.rpartition("-")[2], "VALUE")
            parser.add_argument(flag, metavar=metavar, help=key)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting"
    )


def config_of(args: argparse.Namespace) -> Config:
    """Load the configuration these arguments, the environment and the file add up to."""
    flags = set_by(args)
    for flag in FLAGS:
        flags[flag] = getattr(args, flag.removeprefix("--").replace("-", "_"))
    return load(args.config, os.environ, flags)


def set_by(args: argparse.Namespace) -> dict[str, object]:
    """Read what follows --set, each time it was given."""
    given: dict[str, object] = {}
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set: expected KEY=VALUE, found {pair!r}")
        given[key] = value
    return given
