"""`kafscale groups reset-offsets`: moving what a group has committed.

Here: where to, which partitions, and showing it before it is done. Nothing is changed without
--execute, and nothing while the group has members: they would overwrite it with their next commit.
Next door: looking at groups (groups.py).
"""

import argparse
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from kafscale.cli.errors import CommandError, UsageError
from kafscale.cli.group_questions import committed_of, described, offsets_at, state_name
from kafscale.cli.kafka import ANSWER_WITHIN_S, admin_client, wait
from kafscale.cli.leaders import Place
from kafscale.cli.output import print_columns, print_json
from kafscale.cli.topics import describe_topic
from kafscale.system import SystemClock

_IDLE: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
_ISO_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?",
    re.IGNORECASE,
)
_SHORT_DURATION: Final = re.compile(
    r"(?:(?P<days>\d+)d)?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s)?"
)


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
        "--all-topics", action="store_true", help="everything the group has committed"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the first record there is")
    where.add_argument("--to-latest", action="store_true", help="behind the last record")
    where.add_argument("--to-offset", type=int, metavar="N")
    where.add_argument("--to-datetime", metavar="TIME", help="ISO 8601; without a zone it is UTC")
    where.add_argument("--by-duration", metavar="AGE", help="so far back: 90m, 1d12h or PT90M")
    where.add_argument("--shift-by", type=int, metavar="N", help="forwards, or back with -N")
    parser.add_argument(
        "--execute", action="store_true", help="do it; without this it is only shown"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show it: the default")


def run(args: argparse.Namespace) -> None:
    """Show where offsets would go, and let them go there if told so."""
    if args.execute and args.dry_run:
        raise UsageError("--execute and --dry-run contradict each other")
    if bool(args.topic) == args.all_topics:
        raise UsageError("give either --topic TOPIC or --all-topics")
    when_ms = _when_ms(args)
    admin = admin_client(args)
    group = described(admin, args.name)
    if group.state not in _IDLE:
        raise CommandError(
            f"{args.name}: the group is {state_name(group.state)} and has {len(group.members)} "
            "members; stop them first"
        )
    committed = committed_of(admin, args.name)
    places = list(committed) if args.all_topics else _named(admin, args.topic)
    if not places:
        raise CommandError(f"{args.name}: the group has committed nothing")
    planned = _planned(admin, args, sorted(places), committed, when_ms)
    if args.execute:
        _commit(admin, args.name, planned)
    _show(args, planned, committed)


def _named(admin: AdminClient, wanted: list[str]) -> list[Place]:
    places: dict[Place, None] = {}
    for text in wanted:
        name, colon, numbers = text.partition(":")
        known = [partition.id for partition in describe_topic(admin, name).partitions]
        chosen = known if not colon else [_number(text, one) for one in numbers.split(",")]
        for partition in chosen:
            if partition not in known:
                raise CommandError(f"{name}: there is no partition {partition}")
            places[name, partition] = None
    return list(places)


def _number(text: str, one: str) -> int:
    if not one.strip().isdecimal():
        raise UsageError(f"--topic: expected TOPIC:P,P, found {text!r}")
    return int(one)


def _planned(
    admin: AdminClient,
    args: argparse.Namespace,
    places: list[Place],
    committed: Mapping[Place, int],
    when_ms: int | None,
) -> dict[Place, int]:
    """Where each partition goes, within what there is of it."""
    firsts = offsets_at(admin, places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    ends = offsets_at(admin, places, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    wished: Mapping[Place, int]
    if args.to_earliest:
        wished = firsts
    elif args.to_latest:
        wished = ends
    elif when_ms is not None:
        spec = OffsetSpec.for_timestamp(when_ms)
        found = offsets_at(admin, places, spec)
        # Nothing as new as that: behind the last record.
        wished = {at: offset if offset >= 0 else ends[at] for at, offset in found.items()}
    elif args.shift_by is not None:
        missing = [at for at in places if at not in committed]
        if missing:
            raise CommandError(f"{missing[0][0]}/{missing[0][1]}: nothing is committed to shift")
        wished = {at: committed[at] + args.shift_by for at in places}
    else:
        wished = dict.fromkeys(places, args.to_offset)
    there = [at for at in places if at in wished and at in firsts and at in ends]
    return {at: min(max(wished[at], firsts[at]), ends[at]) for at in there}


def _commit(admin: AdminClient, name: str, planned: Mapping[Place, int]) -> None:
    rows = [TopicPartition(*place, offset) for place, offset in planned.items()]
    wanted = [ConsumerGroupTopicPartitions(name, rows)]
    answers = admin.alter_consumer_group_offsets(wanted, request_timeout=ANSWER_WITHIN_S)
    for row in wait(name, answers[name]).topic_partitions:
        if row.error is not None:
            raise CommandError(f"{row.topic}/{row.partition}: {row.error.str()}")


def _show(
    args: argparse.Namespace, planned: Mapping[Place, int], committed: Mapping[Place, int]
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "topic": place[0],
            "partition": place[1],
            "committed": committed.get(place),
            "new": offset,
            "done": args.execute,
        }
        for place, offset in planned.items()
    ]
    if args.json:
        for row in rows:
            print_json(row)
        return
    headings = ("topic", "partition", "committed", "new")
    print_columns(headings, [[row[key] for key in headings] for row in rows])
    if not args.execute:
        print("nothing was changed: --execute does it")


# -- time ------------------------------------------------------------------------------------


def _when_ms(args: argparse.Namespace) -> int | None:
    when_ms: int | None = None
    if args.to_datetime is not None:
        when_ms = parse_time_ms(args.to_datetime)
    elif args.by_duration is not None:
        age = parse_duration(args.by_duration)
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


def parse_duration(text: str) -> timedelta:
    """Read 90m, 1d12h or ISO 8601's PT90M."""
    found = _SHORT_DURATION.fullmatch(text) or _ISO_DURATION.fullmatch(text)
    parts = {key: int(value) for key, value in found.groupdict().items() if value} if found else {}
    if not parts:
        raise UsageError(f"--by-duration: expected something like 90m or PT90M, found {text!r}")
    try:
        return timedelta(**parts)
    except OverflowError:
        return timedelta.max  # longer ago than anything
