"""The plan of a topic: what must be asked of the brokers, and what is told about it.

Here: a pure comparison of what is wanted with what brokers describe. One direction only: the object
is what is wanted, and the cluster is what is.
Next door: asking the brokers (loops/topics.py).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from kafscale.operator.kinds.topic import KafscaleTopic
from kafscale.operator.planning.conditions import Judgement

STRICT: Final = "kafscale.io/strict"
PAUSED: Final = "kafscale.io/paused"
FINALIZER: Final = "kafscale.io/topic"


class DescribedTopic(NamedTuple):
    """A topic as brokers describe it."""

    topic_id: str
    leaders: Mapping[int, str]  # by partition
    configs: Mapping[str, str]  # every setting with the value that counts
    own: frozenset[str]  # the settings that were given to this very topic


class TopicPlan(Struct, frozen=True, kw_only=True):
    """What is to be asked of the brokers, and what is told."""

    create: bool = False
    delete: bool = False
    partitions: int | None = None  # so many from now on
    changed: dict[str, str] = field(default_factory=dict)
    reset: tuple[str, ...] = ()
    finding: Judgement = Judgement("Ready", True, "Ready")
    told: tuple[tuple[str, str], ...] = ()  # events: reason, words

    @property
    def asks(self) -> bool:
        """Whether brokers are asked for a change."""
        return self.create or self.partitions is not None or bool(self.changed or self.reset)


def wanted_configs(topic: KafscaleTopic) -> dict[str, str]:
    """The settings that the object names."""
    return {
        "retention.ms": str(topic.spec.retention_ms),
        "retention.bytes": str(topic.spec.retention_bytes),
        **topic.spec.config,
    }


def refuse(reason: str, words: str) -> TopicPlan:
    """Ask for nothing, and say why."""
    return TopicPlan(finding=Judgement("Ready", False, reason, words))


def plan_topic(topic: KafscaleTopic, found: DescribedTopic | None) -> TopicPlan:
    """Compare an object with what brokers describe; None: there is no such topic."""
    if topic.metadata.annotations.get(PAUSED) == "true":
        return TopicPlan(finding=Judgement("Ready", None, "Paused", "the object is paused"))
    wanted = wanted_configs(topic)
    if found is None:
        return TopicPlan(create=True, partitions=topic.spec.partitions, changed=wanted)
    there = len(found.leaders)
    if there > topic.spec.partitions:
        words = (
            f"the topic has {there} partitions and the object asks for {topic.spec.partitions}: "
            "partitions can only become more"
        )
        return refuse("PartitionsCannotShrink", words)
    changed = {
        key: value for key, value in sorted(wanted.items()) if found.configs.get(key) != value
    }
    is_strict = topic.metadata.annotations.get(STRICT) == "true"
    reset = tuple(sorted(found.own - wanted.keys())) if is_strict else ()
    return TopicPlan(
        partitions=topic.spec.partitions if there < topic.spec.partitions else None,
        changed=changed,
        reset=reset,
        told=tuple(_news(topic, found, changed, reset)),
    )


def _news(
    topic: KafscaleTopic, found: DescribedTopic, changed: Mapping[str, str], reset: tuple[str, ...]
) -> list[tuple[str, str]]:
    if not topic.status.topic_id:
        return [("Adopted", f"topic {topic.topic} was there already and is managed from now on")]
    if topic.status.observed_generation != topic.metadata.generation:
        return []  # a person changed the object: that is no drift
    drift = [f"{key}: {found.configs.get(key, 'not set')} -> {changed[key]}" for key in changed]
    drift += [f"{key}: {found.configs.get(key, '')} -> default" for key in reset]
    return [("DriftCorrected", "; ".join(drift))] if drift else []
