"""DescribeProducers: API 61, version 0. The idempotent producers that a partition remembers.

The coordinator epoch is the number of the producer's last transaction that ended here.
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import EachRow, by_name, topic_row
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import READS_RECORDS
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

API_KEY: Final = DescribeProducersRequest.api_key
VERSIONS: Final = DescribeProducersRequest.versions
ORDER: Final = READS_RECORDS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.READ,
        ResourceType.TOPIC,
        "topics",
        by_name,
        "topics",
        topic_row(TopicResponse, PartitionResponse, lambda row: row.partition_indexes),
    ),
)


def answer(call: Call) -> Answer:
    """Look at every partition; logs may have to be opened."""
    return _answer(call)


async def _answer(call: Call) -> DescribeProducersResponse:
    request: DescribeProducersRequest = call.message
    wanted: dict[str, dict[int, None]] = {}  # each once: a partition may have very many producers
    async for topic in call.each(request.topics):
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name, [await _describe(call, name, number) async for number in call.each(numbers)]
            )
            async for name, numbers in call.each(wanted.items())
        ]
    )


async def _describe(call: Call, name: str, number: int) -> PartitionResponse:
    result = PartitionResponse(partition_index=number)
    try:
        topic = call.engine.topics.get(name)
        async for producer in call.each(await call.engine.partitions.producers_of(topic, number)):
            state = ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_ms,
                coordinator_epoch=producer.last_turn,
                current_txn_start_offset=producer.open_first,
            )
            result.active_producers.append(state)
    except KafscaleError as problem:
        result.error_code = code_of(problem)
        result.error_message = words_of(problem)
        client_errors.note(call, problem)
    return result
