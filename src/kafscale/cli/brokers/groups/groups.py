"""`kafscale groups`: list, describe, reset-offsets, delete-offsets, delete.

Next door: asking brokers (admin/groups/groups.py), changing offsets (group_offsets.py).
"""

import argparse

from kafscale.admin.groups import groups
from kafscale.cli.brokers.client_arguments import add_client_arguments, admin_client
from kafscale.cli.brokers.groups import group_offsets
from kafscale.cli.terminal.output import print_columns, print_json, print_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list all groups, the one with the largest lag first")
    describe = actions.add_parser(
        "describe", help="show members, committed offsets and lag of a group"
    )
    describe.add_argument("names", nargs="+", metavar="GROUP")
    reset = actions.add_parser(
        "reset-offsets", help="change the committed offsets of a group without members"
    )
    group_offsets.add_arguments(reset)
    delete_offsets = actions.add_parser(
        "delete-offsets", help="delete some of the offsets that a group has committed"
    )
    group_offsets.add_deletion_arguments(delete_offsets)
    delete = actions.add_parser("delete", help="delete groups without members, and their offsets")
    delete.add_argument("names", nargs="+", metavar="GROUP")
    for action, what in (
        (listing, "group"),
        (describe, "group"),
        (reset, "partition"),
        (delete_offsets, "partition"),
    ):
        action.add_argument(
            "--json", action="store_true", help=f"print one line of JSON per {what}"
        )
    for action in (listing, describe, reset, delete_offsets, delete):
        add_client_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    match args.action:
        case "list":
            _list(args)
        case "describe":
            _describe(args)
        case "reset-offsets":
            group_offsets.run(args)
        case "delete-offsets":
            group_offsets.run_deletion(args)
        case "delete":
            groups.delete_groups(admin_client(args), args.names)
    return 0


def _list(args: argparse.Namespace) -> None:
    listed = groups.list_groups(admin_client(args))
    if args.json:
        for group in listed:
            print_json(group._asdict())
    elif listed:
        print_columns(("group", "state", "lag"), listed)


def _describe(args: argparse.Namespace) -> None:
    admin = admin_client(args)
    for number, name in enumerate(dict.fromkeys(args.names)):
        group = groups.describe_group(admin, name)
        if args.json:
            members = [member._asdict() for member in group.members]
            partitions = [partition._asdict() for partition in group.partitions]
            print_json({**group._asdict(), "members": members, "partitions": partitions})
            continue
        if number:
            print()
        count = len(group.members)
        assignor = f"  assignor {group.assignor}" if group.assignor else ""
        print_line(f"group {name}  lag {group.lag}  {group.state}  members {count}{assignor}")
        if group.partitions:
            print_columns(groups.GroupPartition._fields, group.partitions)
