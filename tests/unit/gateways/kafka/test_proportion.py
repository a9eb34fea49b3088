import pytest

from kafscale.gateways.kafka import proportion
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest


def test_rows_are_counted_at_every_depth() -> None:
    assignment = CreatableReplicaAssignment(0, [1, 2, 3])
    topic = CreatableTopic("t", 1, 1, [assignment, assignment])
    assert proportion.rows_in(CreateTopicsRequest([topic, topic])) == 2 * (1 + 2 * (1 + 3))
    assert proportion.rows_in(DeleteTopicsRequest(topic_names=["a", "b"])) == 2
    assert proportion.rows_in(MetadataRequest(None)) == 0


def test_only_more_rows_than_allowed_are_refused() -> None:
    proportion.check(DeleteTopicsRequest(topic_names=["a"] * 100_000), 1 << 20)
    with pytest.raises(MalformedMessage, match="100001 rows"):
        proportion.check(DeleteTopicsRequest(topic_names=["a"] * 100_001), 1 << 20)
