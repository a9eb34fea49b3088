"""`kafscale brokers`: the brokers of a fleet.

Next door: asking them (admin/brokers/members.py).
"""

import argparse

from kafscale.admin.brokers import members
from kafscale.cli.brokers.client_arguments import add_client_arguments, admin_client
from kafscale.cli.terminal.output import print_columns, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--json", action="store_true", help="print one line of JSON per broker")
    add_client_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    found = members.list_brokers(admin_client(args))
    if args.json:
        for broker in found:
            print_json(broker._asdict())
        return 0
    rows = [(*broker[:-1], "controller" if broker.is_controller else "") for broker in found]
    print_columns(("broker", "address", "rack", "leaders", "role"), rows)
    return 0
