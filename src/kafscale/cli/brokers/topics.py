"""`kafscale topics`: create, list, describe, alter, trim, delete.

Next door: asking brokers (admin/brokers/topics.py) and the bucket (admin/bucket/holdings.py).
"""

import argparse
from pathlib import Path
from typing import Any, Final

from kafscale.admin.brokers import configs, topics
from kafscale.admin.brokers.client import KafkaAdmin
from kafscale.cli.brokers.client_arguments import add_client_arguments, admin_client, parse_pairs
from kafscale.cli.terminal.errors import UsageError
from kafscale.cli.terminal.output import print_columns, print_json, print_line
from kafscale.settings.values import MAX_INT32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create topics")
    create.add_argument("names", nargs="+", metavar="TOPIC")
    create.add_argument("-p", "--partitions", type=int, default=-1, metavar="N")
    create.add_argument(
        "-c",
        "--topic-config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the topic, such as retention.ms=60000; may be repeated",
    )
    create.add_argument(
        "--if-not-exists", action="store_true", help="do nothing for a topic that exists"
    )
    listing = actions.add_parser("list", help="list all topics")
    describe = actions.add_parser(
        "describe", help="show partitions, offsets, logs, objects and settings"
    )
    describe.add_argument("names", nargs="+", metavar="TOPIC")
    describe.add_argument(
        "--config", type=Path, metavar="FILE", help="the broker's settings, which name its bucket"
    )
    describe.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one of the broker's settings; may be repeated",
    )
    describe.add_argument(
        "--no-objects", action="store_true", help="ask the broker only, not the bucket"
    )
    alter = actions.add_parser("alter", help="add partitions to a topic")
    alter.add_argument("name", metavar="TOPIC")
    alter.add_argument("-p", "--partitions", type=int, required=True, metavar="N")
    trim = actions.add_parser("trim", help="delete the records of a topic before an offset")
    trim.add_argument("name", metavar="TOPIC")
    trim.add_argument(
        "-p", "--partition", type=int, metavar="N", help="one partition (default: all)"
    )
    before = trim.add_mutually_exclusive_group(required=True)
    before.add_argument("--before", type=int, metavar="OFFSET", help="keep this offset and later")
    before.add_argument("--all", action="store_true", help="delete every record there is now")
    delete = actions.add_parser("delete", help="delete topics and all their records")
    delete.add_argument("names", nargs="+", metavar="TOPIC")
    for action in (listing, describe, trim):
        action.add_argument("--json", action="store_true", help="print one line of JSON per row")
    for action in (create, listing, describe, alter, trim, delete):
        add_client_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    match args.action:
        case "create":
            _create(args)
        case "list":
            _list(args)
        case "describe":
            _describe(args)
        case "alter":
            _alter(args)
        case "trim":
            _trim(args)
        case "delete":
            topics.delete_topics(admin_client(args), args.names)
    return 0


def _create(args: argparse.Namespace) -> None:
    given = parse_pairs("--topic-config", args.topic_config)
    if args.partitions != -1:
        _check_count(args.partitions)
    topics.create_topics(
        admin_client(args),
        args.names,
        partitions=args.partitions,
        configs=given,
        may_exist=args.if_not_exists,
    )


def _check_count(partitions: int) -> None:
    if not 1 <= partitions <= MAX_INT32:
        raise UsageError(f"--partitions: expected 1 to {MAX_INT32}, found {partitions}")


def _alter(args: argparse.Namespace) -> None:
    _check_count(args.partitions)
    topics.add_partitions(admin_client(args), args.name, args.partitions)


def _trim(args: argparse.Namespace) -> None:
    if args.before is not None and args.before < 0:
        raise UsageError(f"--before: expected an offset from 0 on, found {args.before}")
    admin = admin_client(args)
    trimmed = topics.trim_topic(admin, args.name, args.partition, args.before)
    if args.json:
        for row in trimmed:
            print_json({"name": args.name, **row._asdict()})
    else:
        print_columns(topics.TrimmedPartition._fields, trimmed)


def _list(args: argparse.Namespace) -> None:
    counts = topics.list_topics(admin_client(args))
    if args.json:
        for name, count in counts.items():
            print_json({"name": name, "partitions": count})
    elif counts:
        print_columns(("topic", "partitions"), list(counts.items()))


def _describe(args: argparse.Namespace) -> None:
    admin = admin_client(args)
    for number, name in enumerate(dict.fromkeys(args.names)):
        facts = _facts(admin, args, name)
        if args.json:
            print_json(facts)
            continue
        if number:
            print()
        print_line(f"topic {facts['name']}  id {facts['id']}")
        for key, value in facts["configs"].items():
            print_line(f"  {key}={value}")
        if "moving_to" in facts:
            print(f"  is on its way to the {facts['moving_to']} layout")
        _print_partitions(facts)


def _print_partitions(facts: dict[str, Any]) -> None:
    reason = facts.get("unknown")
    shown = [name for name in _COLUMNS if reason is None or name not in _COUNTED]
    rows = [
        ["?" if row[name] is None and name in _PLACED else row[name] for name in shown]
        for row in facts["partitions"]
    ]
    print_columns(shown, rows)
    if reason is not None:
        print_line(f"objects are not shown: {reason}")


_PLACED: Final = ("log", "lane")
_COUNTED: Final = ("objects", "bytes")
_COLUMNS: Final = (
    *("partition", "leader", *_PLACED, *_COUNTED),
    *("earliest", "latest", "records"),
)


def _facts(admin: KafkaAdmin, args: argparse.Namespace, name: str) -> dict[str, Any]:
    from kafscale.admin.bucket import holdings  # what reads a bucket is for this command alone

    topic = topics.describe_topic(admin, name)
    own_configs = configs.own_configs(admin, name)
    held = holdings.TopicHoldings({}, unknown="--no-objects")
    if not args.no_objects:
        given = parse_pairs("--set", args.set)
        held = holdings.find_holdings(args.config, given, name, topic.topic_id)
    count = len(topic.partitions)
    return {
        "name": name,
        "id": topic.topic_id,
        "configs": own_configs,
        **({"unknown": held.unknown} if held.unknown else {}),
        **({"moving_to": held.moving_to} if held.moving_to else {}),
        "partitions": [
            {
                "partition": facts.partition,
                "leader": facts.leader,
                **(
                    held.partitions.get(facts.partition)
                    or holdings.place_by_configs(own_configs, facts.partition, count)
                )._asdict(),
                "earliest": facts.earliest,
                "latest": facts.latest,
                "records": facts.latest - facts.earliest,
            }
            for facts in topic.partitions
        ],
    }
