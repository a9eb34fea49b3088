"""What a client calls things is quoted to it; before flexible versions a text has 32,767 bytes."""

import pytest

from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
)
from kafscale.wire.kafka.schema import Message
from tests.unit.gateways.kafka.caller import Caller, make_batch, produce_request

LONG = "x" * 32_766
UNKNOWN, INVALID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_CONFIG
_CONFIG = create_topics.CreatableTopicConfig(LONG, "1")
_VALUE = create_topics.CreatableTopicConfig("retention.ms", LONG)
_RESOURCE = (2, LONG, [])

QUESTIONS: dict[str, tuple[Message, int, int]] = {
    "produce": (produce_request(LONG, make_batch(b"x")), 8, UNKNOWN),
    "setting": (
        create_topics.CreateTopicsRequest(
            [create_topics.CreatableTopic("a", 1, 1, configs=[_CONFIG])]
        ),
        4,
        INVALID,
    ),
    "value": (
        create_topics.CreateTopicsRequest(
            [create_topics.CreatableTopic("a", 1, 1, configs=[_VALUE])]
        ),
        4,
        INVALID,
    ),
    "partitions": (
        create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(LONG, 1)]
        ),
        1,
        UNKNOWN,
    ),
    "alter": (
        alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(*_RESOURCE)]),
        1,
        UNKNOWN,
    ),
    "alter some": (
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            [incremental_alter_configs.AlterConfigsResource(*_RESOURCE)]
        ),
        0,
        UNKNOWN,
    ),
    "describe": (
        describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(*_RESOURCE)]
        ),
        3,
        UNKNOWN,
    ),
    "elect": (
        elect_leaders.ElectLeadersRequest(0, [elect_leaders.TopicPartitions(LONG, [0])]),
        1,
        UNKNOWN,
    ),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_the_longest_names_are_refused_by_an_answer(
    caller: Caller, question: tuple[Message, int, int]
) -> None:
    request, version, code = question
    answer = await caller.ask(request, version)
    rows = [answer, *_inner(answer)]
    told = next(row for row in rows if getattr(row, "error_message", None))
    assert (told.error_code, told.error_message[-3:]) == (code, "...")


def _inner(row: object) -> list[object]:
    """Every row inside a row."""
    found: list[object] = []
    for name in getattr(row, "__struct_fields__", ()):
        value = getattr(row, name)
        for one in value if isinstance(value, list) else ():
            found += [one, *_inner(one)]
    return found
