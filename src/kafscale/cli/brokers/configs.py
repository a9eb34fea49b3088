"""`kafscale configs`: show and change the settings of topics.

Next door: asking brokers (admin/brokers/configs.py).
"""

import argparse

from kafscale.admin.brokers.configs import alter_configs, describe_configs
from kafscale.cli.brokers.client_arguments import add_client_arguments, admin_client, parse_pairs
from kafscale.cli.terminal.errors import UsageError
from kafscale.cli.terminal.output import print_columns, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    describe = actions.add_parser("describe", help="show every setting and where it comes from")
    describe.add_argument("name", metavar="TOPIC")
    describe.add_argument("--json", action="store_true", help="print one line of JSON per setting")
    alter = actions.add_parser("alter", help="change some settings and leave the others")
    alter.add_argument("name", metavar="TOPIC")
    alter.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set this value for the topic; may be repeated",
    )
    alter.add_argument(
        "--delete",
        action="append",
        default=[],
        metavar="KEY",
        help="reset this setting to its default; may be repeated",
    )
    for action in (describe, alter):
        add_client_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    if args.action == "describe":
        _describe(args)
    else:
        _alter(args)
    return 0


def _describe(args: argparse.Namespace) -> None:
    configs = describe_configs(admin_client(args), args.name)
    if args.json:
        for config in configs:
            print_json(config._asdict())
    else:
        print_columns(("setting", "value", "from"), configs)


def _alter(args: argparse.Namespace) -> None:
    changes = parse_pairs("--set", args.set)
    if not changes and not args.delete:
        raise UsageError("nothing to change: give --set KEY=VALUE or --delete KEY")
    alter_configs(admin_client(args), args.name, changes, args.delete)
