"""`kafscale configs`: show and change the settings of topics."""

import argparse
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from kafscale.cli.errors import UsageError
from kafscale.cli.kafka import (
    ANSWER_WITHIN_S,
    add_client_arguments,
    admin_client,
    wait,
)
from kafscale.cli.output import print_columns, print_json
from kafscale.cli.topics import parse_pairs

_SOURCES: Final[dict[object, str]] = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG.value: "topic",
    ConfigSource.STATIC_BROKER_CONFIG.value: "broker",
    ConfigSource.DEFAULT_CONFIG.value: "default",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    describe = actions.add_parser("describe", help="show every setting and where it comes from")
    describe.add_argument("name", metavar="TOPIC")
    describe.add_argument("--json", action="store_true", help="one line of JSON per setting")
    alter = actions.add_parser("alter", help="change some settings and leave the others")
    alter.add_argument("name", metavar="TOPIC")
    alter.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="give the topic this value; may be repeated",
    )
    alter.add_argument(
        "--delete",
        action="append",
        default=[],
        metavar="KEY",
        help="go back to the default; may be repeated",
    )
    for action in (describe, alter):
        add_client_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    if args.action == "describe":
        _describe(args)
    else:
        _alter(args)
    return 0


def _describe(args: argparse.Namespace) -> None:
    rows = [
        (entry.name, entry.value, _SOURCES.get(entry.source, "other"))
        for _, entry in sorted(configs_of(admin_client(args), args.name).items())
    ]
    if args.json:
        for name, value, source in rows:
            print_json({"name": name, "value": value, "source": source})
    else:
        print_columns(("setting", "value", "from"), rows)


def _alter(args: argparse.Namespace) -> None:
    given = parse_pairs("--set", args.set)
    if not given and not args.delete:
        raise UsageError("nothing to change: give --set KEY=VALUE or --delete KEY")
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in given.items()
    ] + [
        ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
        for name in dict.fromkeys(args.delete)
    ]
    resource = ConfigResource(ResourceType.TOPIC, args.name, incremental_configs=entries)
    admin = admin_client(args)  # a name, or it is gone before it has answered
    answers = admin.incremental_alter_configs([resource], request_timeout=ANSWER_WITHIN_S)
    wait(args.name, answers[resource])


def configs_of(admin: AdminClient, name: str) -> dict[str, ConfigEntry]:
    """Ask for every setting of a topic."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    answers = admin.describe_configs([resource], request_timeout=ANSWER_WITHIN_S)
    found: dict[str, ConfigEntry] = wait(name, answers[resource])
    return found
