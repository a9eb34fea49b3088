"""`kafscale snapshots`: topics as they are now, readable until a chosen day.

Here: the arguments and what is printed. Next door: what a snapshot is and how it holds objects
back from deletion (spark/source/pins.py). Needs neither a broker nor Spark.
"""

import argparse
from datetime import UTC, datetime
from typing import Any, Final

from kafscale.cli.terminal.durations import parse_duration
from kafscale.cli.terminal.errors import UsageError
from kafscale.cli.terminal.output import print_columns, print_json
from kafscale.spark.bucket import Bucket
from kafscale.spark.source import pins
from kafscale.spark.source.pins import NamedSnapshot

_LONGEST_MS: Final = 36_500 * 86_400_000  # calendars end with the year 9999


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    take = actions.add_parser("take", help="take a snapshot of topics as they are now")
    listing = actions.add_parser("list", help="list all snapshots")
    release = actions.add_parser(
        "release", help="delete a snapshot; its objects may then be deleted"
    )
    for action in (take, release):
        action.add_argument("name", metavar="NAME")
    take.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T",
        help="a topic; may be repeated (default: every topic)",
    )
    take.add_argument(
        "--keep",
        default="7d",
        metavar="TIME",
        help="how long to keep it: 90m, 7d, 1d12h (default: 7d)",
    )
    for action in (take, listing, release):
        action.add_argument(
            "--store",
            required=True,
            metavar="URL",
            help="the store: file:///path, s3://bucket, gs://bucket or az://container",
        )
    for action in (take, listing):
        action.add_argument("--json", action="store_true", help="print JSON instead of columns")


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    bucket = Bucket(args.store)
    match args.action:
        case "take":
            made = pins.take(bucket, args.name, args.topic, _kept_ms(args.keep))
            _print([made], made.created_ms, args.json)
        case "list":
            now_ms = bucket.run(lambda store: store.now_ms())
            _print(pins.find_all(bucket), now_ms, args.json)
        case _:
            pins.release(bucket, args.name)
    return 0


def _kept_ms(text: str) -> int:
    try:
        kept_ms = round(parse_duration("--keep", text).total_seconds() * 1000)
    except UsageError:
        kept_ms = 0
    if not 0 < kept_ms <= _LONGEST_MS:
        raise UsageError(f"--keep: expected something like 7d or 90m, up to 36500d, found {text!r}")
    return kept_ms


def _print(snapshots: list[NamedSnapshot], now_ms: int, as_json: bool) -> None:
    rows = [_row(snapshot, now_ms) for snapshot in snapshots]
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        shown = [{**row, "topics": ", ".join(row["topics"])} for row in rows]
        print_columns(list(shown[0]), [list(row.values()) for row in shown])


def _row(snapshot: NamedSnapshot, now_ms: int) -> dict[str, Any]:
    return {
        "name": snapshot.name,
        "taken": _iso(snapshot.created_ms),
        "expires": _iso(snapshot.expires_ms),
        "state": "kept" if snapshot.expires_ms > now_ms else "expired",
        "offsets": sum(view.end - view.start for view in snapshot.partitions),
        "topics": [topic.name for topic in snapshot.topics],
    }


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")[:19] + "Z"
