"""`kafscale doctor`: would a broker start with this configuration, and run well?

Here: one line per check. Next door: the checks (admin/diagnosis.py).
"""

import argparse
import os
from collections.abc import Iterator

from kafscale.admin.diagnosis import CheckResult, check_all
from kafscale.cli.terminal.config_arguments import add_config_arguments, config_of
from kafscale.cli.terminal.output import print_json
from kafscale.settings.config import Config
from kafscale.settings.sources import CONFIG_VARIABLE
from kafscale.settings.values import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--json", action="store_true", help="print one line of JSON per check")
    add_config_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line per check; 0 unless one failed."""
    try:
        config = config_of(args)
    except ConfigError as bad:
        _print(args, CheckResult("fail", "configuration", str(bad)))
        return 2
    failed = False
    for result in _results(args, config):
        _print(args, result)
        failed |= result.verdict == "fail"
    return 1 if failed else 0


def _results(args: argparse.Namespace, config: Config) -> Iterator[CheckResult]:
    source = args.config or os.environ.get(CONFIG_VARIABLE) or "defaults, variables and flags"
    yield CheckResult("ok", "configuration", str(source))
    yield from check_all(config)


def _print(args: argparse.Namespace, result: CheckResult) -> None:
    if args.json:
        print_json(result._asdict())
    else:
        print(f"{result.verdict:5} {result.subject:13} {result.text}", flush=True)
