"""`kafscale topics`: create, list, describe, alter, delete."""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from kafscale.cli.errors import UsageError
from kafscale.cli.kafka import (
    ANSWER_WITHIN_S,
    add_client_arguments,
    admin_client,
    refusal,
    wait,
    wait_for_all,
)
from kafscale.cli.leaders import list_offsets
from kafscale.cli.output import print_columns, print_json
from kafscale.settings.values import MAX_INT32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make new topics")
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
    create.add_argument("--if-not-exists", action="store_true", help="an existing topic is fine")
    listing = actions.add_parser("list", help="show which topics there are")
    describe = actions.add_parser("describe", help="show partitions, offsets, places and settings")
    describe.add_argument("names", nargs="+", metavar="TOPIC")
    describe.add_argument(
        "--config", type=Path, metavar="FILE", help="the broker's settings: they say which bucket"
    )
    describe.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one of those settings"
    )
    describe.add_argument(
        "--no-objects", action="store_true", help="ask the broker alone, not the bucket"
    )
    alter = actions.add_parser("alter", help="give a topic more partitions")
    alter.add_argument("name", metavar="TOPIC")
    alter.add_argument("-p", "--partitions", type=int, required=True, metavar="N")
    delete = actions.add_parser("delete", help="remove topics and all their records")
    delete.add_argument("names", nargs="+", metavar="TOPIC")
    for action in (listing, describe):
        action.add_argument("--json", action="store_true", help="one line of JSON per topic")
    for action in (create, listing, describe, alter, delete):
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
        case "delete":
            _delete(args)
    return 0


def _create(args: argparse.Namespace) -> None:
    configs = parse_pairs("--topic-config", args.topic_config)
    if args.partitions != -1:
        _check_count(args.partitions)
    wanted = [
        NewTopic(name, num_partitions=args.partitions, replication_factor=-1, config=configs)
        for name in dict.fromkeys(args.names)
    ]
    admin = admin_client(args)  # a name, or it is gone before it has answered
    answers = admin.create_topics(wanted, request_timeout=ANSWER_WITHIN_S)
    tolerated = {KafkaError.TOPIC_ALREADY_EXISTS} if args.if_not_exists else set()
    wait_for_all(answers, tolerated)


def _check_count(partitions: int) -> None:
    if not 1 <= partitions <= MAX_INT32:
        raise UsageError(f"--partitions: expected 1 to {MAX_INT32}, found {partitions}")


def _alter(args: argparse.Namespace) -> None:
    _check_count(args.partitions)
    admin = admin_client(args)
    wanted = NewPartitions(args.name, args.partitions)
    answers = admin.create_partitions([wanted], request_timeout=ANSWER_WITHIN_S)
    wait(args.name, answers[args.name])


def _delete(args: argparse.Namespace) -> None:
    names = list(dict.fromkeys(args.names))
    admin = admin_client(args)
    answers = admin.delete_topics(names, request_timeout=ANSWER_WITHIN_S)
    wait_for_all(answers)


def _list(args: argparse.Namespace) -> None:
    topics = all_topics(admin_client(args))
    if args.json:
        for name, count in topics.items():
            print_json({"name": name, "partitions": count})
    elif topics:
        print_columns(("topic", "partitions"), list(topics.items()))


def all_topics(admin: AdminClient) -> dict[str, int]:
    """Ask for every topic and its number of partitions."""
    try:
        found = admin.list_topics(timeout=ANSWER_WITHIN_S).topics
    except KafkaException as bad:
        raise refusal("", bad) from bad
    return {name: len(found[name].partitions) for name in sorted(found)}


def _describe(args: argparse.Namespace) -> None:
    admin = admin_client(args)
    for number, name in enumerate(dict.fromkeys(args.names)):
        facts = _facts(admin, args, name)
        if args.json:
            print_json(facts)
            continue
        if number:
            print()
        print(f"topic {facts['name']}  id {facts['id']}")
        for key, value in facts["configs"].items():
            print(f"  {key}={value}")
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
        print(f"objects are not shown: {reason}")


_PLACED: Final = ("log", "lane")
_COUNTED: Final = ("objects", "bytes")
_COLUMNS: Final = (
    *("partition", "leader", *_PLACED, *_COUNTED),
    *("earliest", "latest", "records"),
)


def _facts(admin: AdminClient, args: argparse.Namespace, name: str) -> dict[str, Any]:
    from kafscale.cli import holdings  # what reads a bucket is for this command alone

    topic = describe_topic(admin, name)
    topic_id = str(topic.topic_id).replace("+", "-").replace("/", "_")  # as Kafka's tools do
    numbers = [partition.id for partition in topic.partitions]
    ranges = offset_ranges(admin, name, numbers)
    configs = _own_configs(admin, name)
    found = holdings.Found({}, unknown="--no-objects")
    if not args.no_objects:
        given = parse_pairs("--set", args.set)
        found = holdings.look(args.config, given, name, topic_id)
    places = found.partitions
    for number in numbers:
        places.setdefault(number, holdings.told_by(configs, number, len(numbers)))
    return {
        "name": name,
        "id": topic_id,
        "configs": configs,
        **({"unknown": found.unknown} if found.unknown else {}),
        **({"moving_to": found.moving_to} if found.moving_to else {}),
        "partitions": [
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader else None,
                **places[partition.id]._asdict(),
                "earliest": ranges[partition.id][0],
                "latest": ranges[partition.id][1],
                "records": ranges[partition.id][1] - ranges[partition.id][0],
            }
            for partition in topic.partitions
        ],
    }


def describe_topic(admin: AdminClient, name: str) -> TopicDescription:
    """Ask for a topic without creating it by asking."""
    answer = admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_WITHIN_S)
    topic: TopicDescription = wait(name, answer[name])
    return topic


def offset_ranges(
    admin: AdminClient, name: str, partitions: Iterable[int]
) -> dict[int, tuple[int, int]]:
    """Ask for the first offset of each partition and the one the next record will get."""
    bounds: list[dict[int, int]] = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
        found: dict[int, int] = {}
        answers = list_offsets(admin, {(name, number): spec for number in partitions})
        for (_, number), answer in answers.items():
            if isinstance(answer, KafkaException):
                raise refusal(f"{name}/{number}", answer) from answer
            found[number] = answer
        bounds.append(found)
    return {number: (bounds[0][number], bounds[1][number]) for number in bounds[0]}


def _own_configs(admin: AdminClient, name: str) -> Mapping[str, str]:
    """The settings somebody chose for this very topic."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    answers = admin.describe_configs([resource], request_timeout=ANSWER_WITHIN_S)
    return {
        key: entry.value
        for key, entry in sorted(wait(name, answers[resource]).items())
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }


def parse_pairs(option: str, pairs: Iterable[str]) -> dict[str, str]:
    """Read KEY=VALUE arguments."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{option}: expected KEY=VALUE, found {pair!r}")
        parsed[key] = value
    return parsed
