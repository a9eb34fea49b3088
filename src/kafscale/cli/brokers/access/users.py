"""`kafscale users`: the users who log in by SCRAM.

A password never stands in a command line, where other users of the machine could read it.
Next door: asking brokers (admin/access/users.py), passwords (cli/terminal/passwords.py).
"""

import argparse

from kafscale.admin.access import users
from kafscale.cli.brokers.client_arguments import add_client_arguments, admin_client
from kafscale.cli.terminal.output import print_columns, print_json
from kafscale.cli.terminal.passwords import read_password


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list users and their mechanisms")
    listing.add_argument("--json", action="store_true", help="print one line of JSON per row")
    add_client_arguments(listing)
    create = actions.add_parser("create", help="give a user a password, or another one")
    create.add_argument("name")
    create.add_argument(
        "--new-password-file",
        metavar="FILE",
        help="holds the user's password (default: KAFSCALE_NEW_PASSWORD, else it is asked for)",
    )
    create.add_argument(
        "--mechanism",
        action="append",
        choices=list(users.MECHANISMS),
        help="may be repeated (default: both)",
    )
    create.add_argument("--iterations", type=int, default=4096, metavar="COUNT")
    add_client_arguments(create)
    delete = actions.add_parser("delete", help="remove a user")
    delete.add_argument("name")
    add_client_arguments(delete)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    if args.action == "create":
        password = read_password(
            args.new_password_file, "KAFSCALE_NEW_PASSWORD", f"Password of {args.name}: "
        )
        mechanisms = args.mechanism or list(users.MECHANISMS)
        users.create_user(admin_client(args), args.name, password, mechanisms, args.iterations)
        print(f"created {args.name}")
    elif args.action == "delete":
        users.delete_user(admin_client(args), args.name)
        print(f"deleted {args.name}")
    else:
        _show(args, users.list_users(admin_client(args)))
    return 0


def _show(args: argparse.Namespace, found: list[users.UserCredential]) -> None:
    if args.json:
        for row in found:
            print_json(row._asdict())
        return
    print_columns(("user", "mechanism", "iterations"), found)
