"""`kafscale serve`: a broker in this process, and the console beside it."""

import argparse

from kafscale.cli.terminal.config_arguments import (
    add_config_arguments,
    config_of,
    given_settings,
)
from kafscale.system import SystemClock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_config_arguments(parser)
    parser.add_argument(
        "--no-console",
        action="store_true",
        help="do not start the web console beside the broker (console.enabled)",
    )


def run(args: argparse.Namespace) -> int:
    """Run a broker until a signal stops it."""
    config = config_of(args)  # before the imports: a wrong setting is reported at once
    from kafscale.broker.main import run as run_broker

    if args.no_console or not config.console.enabled:
        return run_broker(config)
    from kafscale.local.companion import Companion

    return run_broker(config, Companion(config.console, given_settings(args), SystemClock()))
