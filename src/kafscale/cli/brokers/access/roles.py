"""`kafscale roles`: grant, revoke and list the roles admin, producer and consumer.

Next door: what a role is made of (access/roles.py), asking brokers (admin/access/roles.py).
"""

import argparse
from collections.abc import Sequence

from kafscale.access.acls import WILDCARD, PatternType, read_principal
from kafscale.access.roles import EVERY, ROLES, GrantedRole, Pattern
from kafscale.admin.access import roles
from kafscale.cli.brokers.client_arguments import add_client_arguments, admin_client
from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.cli.terminal.output import print_columns, print_json
from kafscale.model.errors import InvalidAcl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    grant = actions.add_parser("grant", help="give a principal a role")
    revoke = actions.add_parser("revoke", help="take a role from a principal")
    for action in (grant, revoke):
        action.add_argument("role", choices=ROLES)
        action.add_argument("principal", metavar="PRINCIPAL", help="such as User:alice")
        topics = action.add_mutually_exclusive_group()
        topics.add_argument("--topic", metavar="NAME", help="for this topic (default: all)")
        topics.add_argument("--topic-prefix", metavar="PREFIX", help="for topics that begin so")
        groups = action.add_mutually_exclusive_group()
        groups.add_argument("--group", metavar="NAME", help="for this group (default: all)")
        groups.add_argument("--group-prefix", metavar="PREFIX", help="for groups that begin so")
        action.add_argument(
            "--from-host", metavar="ADDRESS", default=WILDCARD, help="from this address alone"
        )
    listing = actions.add_parser("list", help="list who has which role")
    listing.add_argument("principal", nargs="?", metavar="PRINCIPAL", help="this one's alone")
    listing.add_argument("--json", action="store_true", help="print one line of JSON per role")
    for action in (grant, revoke, listing):
        add_client_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    match args.action:
        case "grant":
            roles.grant_role(admin_client(args), _role(args))
        case "revoke":
            role = _role(args)
            if not roles.revoke_role(admin_client(args), role):
                raise CommandError(f"{role.principal} does not have this role")
        case "list":
            _list(args)
    return 0


def _role(args: argparse.Namespace) -> GrantedRole:
    try:
        principal = read_principal(args.principal)
    except InvalidAcl as bad:
        raise UsageError(str(bad)) from bad
    groups = _pattern(args.group, args.group_prefix)
    if not ROLES[args.role].groups:
        if groups != EVERY:
            raise UsageError(f"the role {args.role} is not about groups")
        return GrantedRole(principal, args.role, _topics(args), None, args.from_host)
    return GrantedRole(principal, args.role, _topics(args), groups, args.from_host)


def _topics(args: argparse.Namespace) -> Pattern:
    return _pattern(args.topic, args.topic_prefix)


def _pattern(name: str | None, prefix: str | None) -> Pattern:
    if prefix is not None:
        return Pattern(PatternType.PREFIXED, prefix)
    return Pattern(PatternType.LITERAL, name) if name is not None else EVERY


def _texts(patterns: Sequence[Pattern]) -> str:
    return ",".join(map(str, patterns))


def _list(args: argparse.Namespace) -> None:
    rows = [
        (str(one.principal), one.role, _texts(one.topics), _texts(one.groups), one.host)
        for one in roles.list_roles(admin_client(args), args.principal)
    ]
    headings = ("principal", "role", "topics", "groups", "host")
    if args.json:
        for row in rows:
            print_json(dict(zip(headings, row, strict=True)))
    elif rows:
        print_columns(headings, rows)
