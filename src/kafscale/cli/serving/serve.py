"""`kafscale serve`: a broker in this process."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kafscale.cli.terminal.config_arguments import add_config_arguments, config_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_config_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run a broker until a signal stops it."""
    config = config_of(args)  # before the imports: a wrong setting is reported at once
    with _without_rich():
        from kafscale.broker.main import run as run_broker

    return run_broker(config)


@contextmanager
def _without_rich() -> Iterator[None]:
    """Keep structlog from loading rich, which it uses for tracebacks in colour.

    Measured: loading it is half of the time that a broker needs to start.
    """
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["rich"]
