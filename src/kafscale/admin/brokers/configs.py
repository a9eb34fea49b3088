"""The settings of topics, asked of brokers: describe, alter.

Next door: topics themselves (topics.py).
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from kafscale.admin.brokers.client import ANSWER_WITHIN_S, wait

_SOURCES: Final[dict[object, str]] = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG.value: "topic",
    ConfigSource.STATIC_BROKER_CONFIG.value: "broker",
    ConfigSource.DEFAULT_CONFIG.value: "default",
}


class ConfigValue(NamedTuple):
    """One setting of a topic."""

    name: str
    value: str | None
    source: str  # "topic", "broker", "default" or "other"


def source_name(entry: ConfigEntry) -> str:
    """Where a setting's value comes from."""
    return _SOURCES.get(entry.source, "other")


def describe_configs(admin: AdminClient, topic: str) -> list[ConfigValue]:
    """Ask for every setting of a topic, by name."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    answers = admin.describe_configs([resource], request_timeout=ANSWER_WITHIN_S)
    entries: dict[str, ConfigEntry] = wait(topic, answers[resource])
    return [
        ConfigValue(name, entry.value, source_name(entry))
        for name, entry in sorted(entries.items())
    ]


def own_configs(admin: AdminClient, topic: str) -> dict[str, str]:
    """Ask for the settings that were given to this very topic."""
    configs = describe_configs(admin, topic)
    return {config.name: config.value or "" for config in configs if config.source == "topic"}


def alter_configs(
    admin: AdminClient, topic: str, changes: Mapping[str, str], reset: Iterable[str]
) -> None:
    """Change some settings of a topic, reset others to their default, leave the rest."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changes.items()
    ] + [
        ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
        for name in dict.fromkeys(reset)
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    answers = admin.incremental_alter_configs([resource], request_timeout=ANSWER_WITHIN_S)
    wait(topic, answers[resource])
