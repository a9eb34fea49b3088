"""Many topics at once: their partitions and settings, in a few requests.

Next door: one topic with its offsets (topics.py), its settings (configs.py).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from kafscale.admin.brokers.client import ANSWER_WITHIN_S, refusal

_AT_ONCE: Final = 200  # topics in one request
_ABSENT: Final = KafkaError.UNKNOWN_TOPIC_OR_PART


class TopicState(NamedTuple):
    """A topic as brokers describe it, without its offsets."""

    topic_id: str
    leaders: dict[int, str]  # the broker's number as text, empty without a leader, by partition
    configs: dict[str, str]  # every setting with the value that counts
    own: frozenset[str]  # the settings that were given to this very topic


def describe_states(admin: AdminClient, names: Sequence[str]) -> dict[str, TopicState]:
    """Describe topics; those that do not exist are left out."""
    found: dict[str, TopicState] = {}
    for begin in range(0, len(names), _AT_ONCE):
        found |= _describe(admin, names[begin : begin + _AT_ONCE])
    return found


def _describe(admin: AdminClient, names: Sequence[str]) -> dict[str, TopicState]:
    asked = admin.describe_topics(TopicCollection(list(names)), request_timeout=ANSWER_WITHIN_S)
    described = dict(_there(asked))
    if not described:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in described]
    answers = admin.describe_configs(resources, request_timeout=ANSWER_WITHIN_S)
    settings = dict(_there({one.name: answer for one, answer in answers.items()}))
    return {
        name: TopicState(
            str(topic.topic_id).replace("+", "-").replace("/", "_"),
            {one.id: str(one.leader.id) if one.leader else "" for one in topic.partitions},
            {key: entry.value or "" for key, entry in settings[name].items()},
            frozenset(
                key
                for key, entry in settings[name].items()
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            ),
        )
        for name, topic in described.items()
        if name in settings
    }


def _there(answers: "dict[str, Any]") -> Iterator[tuple[str, Any]]:
    """Yield what was answered; a topic that does not exist is left out."""
    for name, answer in answers.items():
        try:
            yield name, answer.result()
        except KafkaException as bad:
            if bad.args[0].code() != _ABSENT:
                raise refusal(name, bad) from bad
