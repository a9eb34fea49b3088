"""`kafscale groups`: list, describe, reset-offsets, delete.

Here: what is shown of groups, how far behind they are first of all.
Next door: asking the broker (group_questions.py), moving offsets (group_offsets.py).
"""

import argparse
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    KafkaException,
)
from confluent_kafka.admin import AdminClient

from kafscale.cli import group_offsets
from kafscale.cli.errors import CommandError
from kafscale.cli.group_questions import committed_of, described, ends_of, lag_of, state_name
from kafscale.cli.kafka import (
    ANSWER_WITHIN_S,
    add_client_arguments,
    admin_client,
    refusal,
    wait_for_all,
)
from kafscale.cli.output import print_columns, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show all groups, the one furthest behind first")
    describe = actions.add_parser("describe", help="show how far behind a group is, and who reads")
    describe.add_argument("names", nargs="+", metavar="GROUP")
    reset = actions.add_parser("reset-offsets", help="move the offsets of a group without members")
    group_offsets.add_arguments(reset)
    delete = actions.add_parser("delete", help="forget groups without members, and their offsets")
    delete.add_argument("names", nargs="+", metavar="GROUP")
    for action, what in ((listing, "group"), (describe, "group"), (reset, "partition")):
        action.add_argument("--json", action="store_true", help=f"one line of JSON per {what}")
    for action in (listing, describe, reset, delete):
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
        case "delete":
            _delete(args)
    return 0


def _list(args: argparse.Namespace) -> None:
    admin = admin_client(args)
    try:
        found = admin.list_consumer_groups(request_timeout=ANSWER_WITHIN_S).result()
    except KafkaException as bad:
        raise refusal("", bad) from bad
    for problem in found.errors:
        raise refusal("", problem)
    groups = {group.group_id: state_name(group.state) for group in found.valid}
    committed = {name: committed_of(admin, name) for name in groups}
    ends = ends_of(admin, {place for rows in committed.values() for place in rows})
    rows = [(name, state, lag_of(committed[name], ends)) for name, state in groups.items()]
    rows.sort(key=lambda row: (-row[2], row[0]))
    if args.json:
        for name, state, lag in rows:
            print_json({"group": name, "state": state, "lag": lag})
    elif rows:
        print_columns(("group", "state", "lag"), rows)


def _describe(args: argparse.Namespace) -> None:
    admin = admin_client(args)
    for number, name in enumerate(dict.fromkeys(args.names)):
        facts = _facts(admin, name)
        if args.json:
            print_json(facts)
            continue
        if number:
            print()
        count = len(facts["members"])
        print(f"group {name}  lag {facts['lag']}  {facts['state']}  members {count}", end="")
        print(f"  assignor {facts['assignor']}" if facts["assignor"] else "")
        headings = ("topic", "partition", "committed", "end", "lag", "member", "host", "client")
        if facts["partitions"]:
            print_columns(headings, [[row[key] for key in headings] for row in facts["partitions"]])


def _facts(admin: AdminClient, name: str) -> dict[str, Any]:
    group = described(admin, name)
    committed = committed_of(admin, name)
    if group.state == ConsumerGroupState.DEAD and not committed:
        raise CommandError(f"{name}: there is no such group")
    owners = {
        (place.topic, place.partition): member
        for member in group.members
        for place in (member.assignment.topic_partitions if member.assignment else ())
    }
    places = {*committed, *owners}
    ends = ends_of(admin, places)
    rows = [
        _row(place, committed.get(place), ends.get(place), owners.get(place)) for place in places
    ]
    idle = [member for member in group.members if member not in owners.values()]
    rows += [_row((None, None), None, None, member) for member in idle]
    rows.sort(key=_rank)
    return {
        "group": name,
        "state": state_name(group.state),
        "lag": lag_of(committed, ends),
        "assignor": group.partition_assignor or "",
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.host,
            }
            for member in group.members
        ],
        "partitions": rows,
    }


def _rank(row: dict[str, Any]) -> tuple[object, ...]:
    """What is furthest behind comes first, what nobody knows last."""
    lag = row["lag"]
    return (lag is None, -(lag or 0), row["topic"] or "~", row["partition"] or 0)


def _row(
    place: tuple[str | None, int | None], committed: int | None, end: int | None, member: Any
) -> dict[str, Any]:
    known = committed is not None and end is not None
    return {
        "topic": place[0],
        "partition": place[1],
        "committed": committed,
        "end": end,
        "lag": max((end or 0) - (committed or 0), 0) if known else None,
        "member": member.member_id if member else None,
        "host": member.host if member else None,
        "client": member.client_id if member else None,
    }


def _delete(args: argparse.Namespace) -> None:
    names = list(dict.fromkeys(args.names))
    admin = admin_client(args)
    answers = admin.delete_consumer_groups(names, request_timeout=ANSWER_WITHIN_S)
    wait_for_all(answers)
