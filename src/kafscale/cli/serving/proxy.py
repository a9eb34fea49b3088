"""`kafscale proxy`: virtual partitions before an Apache Kafka that exists already."""

import argparse
from pathlib import Path

from kafscale.cli.terminal.output import print_columns, print_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("action", nargs="?", choices=["run", "verify", "address"], default="run")
    parser.add_argument(
        "topics",
        nargs="*",
        metavar="TOPIC",
        help="for verify: what to check; for address: TOPIC and PARTITION[:OFFSET] ...",
    )
    parser.add_argument(
        "--physical",
        action="store_true",
        help="for address: places are physical ones, to be shown as virtual ones",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="the proxy's YAML file")
    parser.add_argument("--upstream", metavar="HOST:PORT,...", help="the Kafka cluster behind")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where clients connect")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warn", "error"])


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    from kafscale.broker.operating import log_output
    from kafscale.proxy.settings import load

    if args.action == "address":
        return _show_addresses(args)
    settings = load(args.config, args.upstream, args.listen)
    if args.action == "verify":
        log_output.configure("warn", None)
        from kafscale.proxy.verifying import run_verification

        reports = run_verification(settings, args.topics)
        for report in reports:
            print_line(str(report))
        return 0 if all(report.is_sound for report in reports) else 1
    log_output.configure(args.log_level, None)
    from kafscale.proxy.main import run as run_proxy

    return run_proxy(settings)


def _show_addresses(args: argparse.Namespace) -> int:
    from kafscale.proxy.addresses import addresses, remapper_of
    from kafscale.proxy.settings import load_mapping
    from kafscale.settings.values import ConfigError

    if len(args.topics) < 2:
        raise ConfigError("expected a topic and PARTITION[:OFFSET] ...")
    topic, *places = args.topics
    remapper = remapper_of(load_mapping(args.config), topic)
    rows = addresses(remapper, places, from_physical=args.physical)
    headings = ("VIRTUAL", "OFFSET", "PHYSICAL", "GROUP", "ADDRESS")
    print_columns(headings, rows)
    return 0
