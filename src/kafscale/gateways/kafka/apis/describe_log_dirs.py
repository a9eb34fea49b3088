"""DescribeLogDirs: API 35, versions 0-4.

There is one directory: the object store. The answer says what each partition takes there.
v4  sizes of the volume: a bucket has none, so they are unknown
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import READS_RECORDS
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

API_KEY: Final = DescribeLogDirsRequest.api_key
VERSIONS: Final = DescribeLogDirsRequest.versions
ORDER: Final = READS_RECORDS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE,
        ResourceType.CLUSTER,
        cluster,
        error_alone(DescribeLogDirsResponse),
    ),
)

_OPENED_AT_ONCE: Final = 256


def answer(call: Call) -> Answer:
    """Look at every partition asked for; logs may have to be opened."""
    return _answer(call)


async def _answer(call: Call) -> DescribeLogDirsResponse:
    directory = DescribeLogDirsResult(log_dir=call.engine.store_name)
    try:
        directory.topics = [
            await _describe(call, topic, numbers)
            async for topic, numbers in call.each(_wanted(call))
        ]
    except KafscaleError as problem:
        # A client must not take an unknown size for a small one.
        directory.error_code = code_of(problem)
    return DescribeLogDirsResponse(results=[directory])


def _wanted(call: Call) -> Iterable[tuple[Topic, list[int]]]:
    """Topics and partitions that exist; the protocol has no place to say that others do not."""
    request: DescribeLogDirsRequest = call.message
    if request.topics is None:
        return ((topic, _led_here(call, topic)) for topic in list(call.engine.topics.all()))
    named: dict[str, set[int]] = {}
    for requested in request.topics:
        named.setdefault(requested.topic, set()).update(requested.partitions)
    known = ((call.engine.topics.find(name), numbers) for name, numbers in named.items())
    return (
        (topic, sorted(numbers.intersection(_led_here(call, topic))))
        for topic, numbers in known
        if topic is not None
    )


def _led_here(call: Call, topic: Topic) -> list[int]:
    """The partitions that this broker leads. Other brokers describe theirs."""
    may_open = call.engine.cluster.may_open
    return [number for number in range(topic.partitions) if may_open(topic.folder(number))]


async def _describe(call: Call, topic: Topic, numbers: list[int]) -> DescribeLogDirsTopic:
    inspection = call.engine.partitions
    rows = []
    async for begin in call.each(range(0, len(numbers), _OPENED_AT_ONCE)):
        some = numbers[begin : begin + _OPENED_AT_ONCE]
        sizes = await asyncio.gather(*(inspection.size_of(topic, number) for number in some))
        rows += [DescribeLogDirsPartition(*row) for row in zip(some, sizes, strict=True)]
    return DescribeLogDirsTopic(topic.name, rows)
