"""`kafscale groups reset-offsets` and `delete-offsets`: changing what a group has committed.

Here: where to, which partitions, and the plan on the screen. Resetting changes nothing without
--execute.
Next door: the plan (admin/groups/group_resets.py), deleting (admin/groups/offset_deletion.py).
"""

import argparse
from datetime import UTC, datetime

from kafscale.admin.groups.group_resets import PlannedOffset, ResetTarget, commit_reset, plan_reset
from kafscale.admin.groups.offset_deletion import DeletedOffset, delete_offsets
from kafscale.cli.brokers.client_arguments import admin_client, client_properties
from kafscale.cli.terminal.durations import parse_duration
from kafscale.cli.terminal.errors import UsageError
from kafscale.cli.terminal.output import print_columns, print_json
from kafscale.system import SystemClock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("name", metavar="GROUP")
    parser.add_argument(
        "-t",
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:P,P]",
        help="a topic, or some of its partitions; may be repeated",
    )
    parser.add_argument(
        "--all-topics",
        action="store_true",
        help="all partitions for which the group has committed an offset",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the first record")
    where.add_argument("--to-latest", action="store_true", help="after the last record")
    where.add_argument("--to-offset", type=int, metavar="N", help="to this offset")
    where.add_argument(
        "--to-datetime",
        metavar="TIME",
        help="to the first record of this time: ISO 8601, UTC without a zone",
    )
    where.add_argument(
        "--by-duration", metavar="AGE", help="to the first record of this age: 90m, 1d12h or PT90M"
    )
    where.add_argument(
        "--shift-by", type=int, metavar="N", help="N records forward, or back with -N"
    )
    parser.add_argument(
        "--execute",
        action="store_true",
        help="change the offsets; without this they are only shown",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only show the new offsets (default)"
    )


def add_deletion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what deleting takes."""
    parser.add_argument("name", metavar="GROUP")
    parser.add_argument(
        "-t",
        "--topic",
        action="append",
        required=True,
        metavar="TOPIC[:P,P]",
        help="a topic, or some of its partitions; may be repeated",
    )


def run_deletion(args: argparse.Namespace) -> None:
    """Delete offsets and show what they were."""
    wanted = _partitions(args.topic)
    properties = client_properties(args)
    deleted = delete_offsets(admin_client(args), args.name, wanted, properties)
    if args.json:
        for row in deleted:
            print_json(row._asdict())
    else:
        print_columns(DeletedOffset._fields, deleted)


def run(args: argparse.Namespace) -> None:
    """Show where offsets would go; with --execute move them there."""
    if args.execute and args.dry_run:
        raise UsageError("--execute and --dry-run contradict each other")
    if bool(args.topic) == args.all_topics:
        raise UsageError("give either --topic TOPIC or --all-topics")
    target = _target(args)
    partitions = None if args.all_topics else _partitions(args.topic)
    admin = admin_client(args)
    planned = plan_reset(admin, args.name, target, partitions)
    if args.execute:
        commit_reset(admin, args.name, planned)
    _show(args, planned)


def _target(args: argparse.Namespace) -> ResetTarget:
    when_ms = _when_ms(args)
    if args.to_earliest:
        return ResetTarget("earliest")
    if args.to_latest:
        return ResetTarget("latest")
    if when_ms is not None:
        return ResetTarget("time", when_ms)
    if args.shift_by is not None:
        return ResetTarget("shift", args.shift_by)
    return ResetTarget("offset", args.to_offset)


def _partitions(wanted: list[str]) -> dict[str, list[int] | None]:
    """Read TOPIC and TOPIC:P,P; None: all partitions of the topic."""
    partitions: dict[str, list[int] | None] = {}
    for text in wanted:
        name, colon, numbers = text.partition(":")
        if not colon:
            partitions[name] = None
            continue
        chosen = [_number(text, number) for number in numbers.split(",")]
        before = partitions.get(name, [])
        partitions[name] = None if before is None else [*before, *chosen]
    return partitions


def _number(text: str, number: str) -> int:
    if not number.strip().isdecimal():
        raise UsageError(f"--topic: expected TOPIC:P,P, found {text!r}")
    return int(number)


def _show(args: argparse.Namespace, planned: list[PlannedOffset]) -> None:
    if args.json:
        for row in planned:
            print_json({**row._asdict(), "done": args.execute})
        return
    print_columns(PlannedOffset._fields, planned)
    if not args.execute:
        print("nothing was changed: --execute does it")


# -- time ------------------------------------------------------------------------------------


def _when_ms(args: argparse.Namespace) -> int | None:
    when_ms: int | None = None
    if args.to_datetime is not None:
        when_ms = parse_time_ms(args.to_datetime)
    elif args.by_duration is not None:
        age = parse_duration("--by-duration", args.by_duration)
        when_ms = SystemClock().now_ms() - round(age.total_seconds() * 1000)
    # Below zero the protocol has other meanings; no record is that old.
    return None if when_ms is None else max(0, when_ms)


def parse_time_ms(text: str) -> int:
    """Read an ISO 8601 time; without a zone it is UTC."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--to-datetime: expected something like 2026-01-31T08:00:00, found {text!r}"
        ) from None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return round(when.timestamp() * 1000)
