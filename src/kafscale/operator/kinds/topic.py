"""KafscaleTopic: a topic of a cluster, as people write it.

Next door: what is done about it (planning/topics.py).
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from kafscale.operator.kinds.metadata import Condition, Metadata


class _Fields(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A group of fields."""


class TopicObjectSpec(_Fields, frozen=True, kw_only=True):
    """What is wanted."""

    cluster_ref: Annotated[
        str,
        Meta(min_length=1, max_length=253, description="The KafscaleCluster, in this namespace."),
    ]
    topic_name: Annotated[
        str | None,
        Meta(
            description="The topic's name where it is no name for Kubernetes (capitals, "
            "underscores). Not set: `metadata.name`."
        ),
    ] = None
    partitions: Annotated[
        int, Meta(ge=1, le=1024, description="How many partitions. They only become more.")
    ]
    retention_ms: Annotated[
        int, Meta(ge=-1, description="How long records are kept; -1: without end.")
    ] = 604800000
    retention_bytes: Annotated[
        int, Meta(ge=-1, description="How many bytes each partition keeps; -1: all.")
    ] = -1
    config: Annotated[
        dict[str, str],
        Meta(max_length=256, description="Any other setting of topics, such as `cleanup.policy`."),
    ] = field(default_factory=dict)
    deletion_policy: Annotated[
        Literal["Retain", "Delete"],
        Meta(description="Whether the topic and its records go when this object is deleted."),
    ] = "Retain"


class PartitionStatus(_Fields, frozen=True, kw_only=True):
    """One partition."""

    id: Annotated[int, Meta(description="Its number.")]
    leader: Annotated[str, Meta(description="The broker that leads it.")] = ""
    log_end_offset: Annotated[
        int, Meta(description="Not written: it changes with every record. Ask a broker.")
    ] = 0


class TopicObjectStatus(_Fields, frozen=True, kw_only=True):
    """What is there."""

    phase: Annotated[
        str, Meta(description="A summary for people: `Pending`, `Ready`, `Refused`.")
    ] = ""
    topic_id: Annotated[str, Meta(description="The topic's id.")] = ""
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that this status is about.")
    ] = 0
    partitions: Annotated[
        list[PartitionStatus],
        Meta(description="The partitions, of topics with up to 100; looked at every 5 minutes."),
    ] = field(default_factory=list)
    conditions: Annotated[
        list[Condition], Meta(description="What is well and what is not, with reasons.")
    ] = field(default_factory=list)


class KafscaleTopic(Struct, frozen=True, kw_only=True, rename="camel"):
    """A topic of a cluster."""

    metadata: Metadata
    spec: TopicObjectSpec
    status: TopicObjectStatus = TopicObjectStatus()

    @property
    def topic(self) -> str:
        """The name that Kafka clients use."""
        return self.spec.topic_name or self.metadata.name
