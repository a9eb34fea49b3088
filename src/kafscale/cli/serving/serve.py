"""`kafscale serve`: a broker in this process."""

import argparse

from kafscale.cli.terminal.config_arguments import add_config_arguments, config_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_config_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run a broker until a signal stops it."""
    config = config_of(args)  # before the imports: a wrong setting is reported at once
    from kafscale.broker.main import run as run_broker

    return run_broker(config)
