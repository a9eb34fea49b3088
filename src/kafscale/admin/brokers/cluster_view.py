"""The whole fleet by two questions: brokers, topics, and which broker leads what.

Here: what a list needs, without a question per row. Next door: one topic (topics.py), one group
(admin/groups), what a broker says of itself (broker_facts.py).
"""

from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafscale.admin.brokers.client import ANSWER_WITHIN_S, refusal, wait


class NodeFacts(NamedTuple):
    """A broker as clients are told."""

    broker: int
    host: str
    port: int
    rack: str | None


class FleetView(NamedTuple):
    """Everything that Metadata and DescribeCluster say."""

    cluster_id: str | None
    controller: int | None
    nodes: list[NodeFacts]
    leaders: dict[str, dict[int, int]]  # topic -> partition -> leading broker, -1: none


def view_cluster(admin: AdminClient) -> FleetView:
    """Ask for all brokers and topics."""
    described = wait("", admin.describe_cluster(request_timeout=ANSWER_WITHIN_S))
    try:
        topics = admin.list_topics(timeout=ANSWER_WITHIN_S).topics
    except KafkaException as bad:
        raise refusal("", bad) from bad
    controller: Any = described.controller
    return FleetView(
        described.cluster_id,
        controller.id if controller is not None else None,
        [
            NodeFacts(node.id, node.host, node.port, node.rack)
            for node in sorted(described.nodes, key=lambda node: node.id)
        ],
        {
            name: {number: partition.leader for number, partition in topic.partitions.items()}
            for name, topic in topics.items()
        },
    )
