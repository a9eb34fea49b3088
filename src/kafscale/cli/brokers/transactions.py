"""`kafscale transactions`: list, describe.

Next door: asking brokers (admin/brokers/transactions.py).
"""

import argparse

from kafscale.admin.brokers import transactions
from kafscale.cli.brokers.client_arguments import (
    add_client_arguments,
    admin_client,
    client_properties,
)
from kafscale.cli.terminal.output import print_columns, print_json, print_line
from kafscale.model.topics import iso_time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list transactional ids and their states")
    listing.add_argument(
        "--state", action="append", default=[], help="only those in this state; may be repeated"
    )
    listing.add_argument(
        "--older-than-ms",
        type=int,
        default=-1,
        metavar="MS",
        help="only those whose transaction has been open for so long",
    )
    describe = actions.add_parser("describe", help="show transactional ids with their partitions")
    describe.add_argument("ids", nargs="+", metavar="ID")
    for action in (listing, describe):
        action.add_argument("--json", action="store_true", help="print one line of JSON per id")
        add_client_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    if args.action == "list":
        _list(args)
    else:
        _describe(args)
    return 0


def _list(args: argparse.Namespace) -> None:
    listed = transactions.list_transactions(
        admin_client(args), client_properties(args), args.state, args.older_than_ms
    )
    if args.json:
        for row in listed:
            print_json(row._asdict())
    elif listed:
        rows = [(row.transactional_id, row.state, row.producer_id) for row in sorted(listed)]
        print_columns(("id", "state", "producer"), rows)


def _describe(args: argparse.Namespace) -> None:
    admin, settings = admin_client(args), client_properties(args)
    for number, name in enumerate(dict.fromkeys(args.ids)):
        found = transactions.describe_transaction(admin, settings, name)
        if args.json:
            print_json(found._asdict())
            continue
        if number:
            print()
        since = "" if found.started_ms is None else f"  since {iso_time(found.started_ms)}"
        print_line(
            f"id {name}  {found.state}{since}  producer {found.producer_id}  "
            f"epoch {found.epoch}  timeout {found.timeout_ms} ms"
        )
        if found.partitions:
            print_columns(("topic", "partition"), found.partitions)
