"""Settings of mapped topics: sizes as clients see them, and no compaction.

`retention.bytes` is about one partition. Clients mean a virtual one; the upstream keeps as much for
each physical partition as its virtual ones together may have.
"""

from typing import Any, Final, Protocol, TypeVar

from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall
from kafscale.proxy.coordination.topics import MappedTopic, Unmappable
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import alter_configs as alter_messages
from kafscale.wire.kafka.messages import incremental_alter_configs as incremental_messages
from kafscale.wire.kafka.messages.describe_configs import DescribeConfigsResponse

_TOPIC: Final = 2  # as Kafka numbers kinds of resources
_SCALED: Final = "retention.bytes"
_LARGEST: Final = (1 << 63) - 1
COMPACTED: Final = "virtual partitions share physical ones, so that keys would be compacted away"


class WantedConfig(Protocol):
    """A setting that a client wants."""

    name: str
    value: str | None


_R = TypeVar("_R", alter_messages.AlterConfigsResource, incremental_messages.AlterConfigsResource)
_A = TypeVar(
    "_A",
    alter_messages.AlterConfigsResponse,
    incremental_messages.IncrementalAlterConfigsResponse,
)


def compacts(config: WantedConfig) -> bool:
    """Whether a setting has a topic compacted."""
    return config.name == "cleanup.policy" and "compact" in (config.value or "")


def scale_up(config: WantedConfig, lanes: int) -> None:
    """From one virtual partition to a physical one."""
    if config.name == _SCALED and config.value is not None and config.value.isdigit():
        config.value = str(min(int(config.value) * lanes, _LARGEST))


def scaled_down(value: str | None, lanes: int) -> str | None:
    """From a physical partition to one of its virtual ones."""
    return str(int(value) // lanes) if value is not None and value.isdigit() else value


async def _mapped(call: ProxyCall, kind: int, name: str) -> MappedTopic | None:
    if kind != _TOPIC or not call.context.topics.is_mapped(name):
        return None
    try:
        return await call.context.topics.find(name)
    except Unmappable:
        return None


async def _sorted(call: ProxyCall, resources: list[_R]) -> tuple[list[_R], list[str]]:
    """The resources to pass on, scaled, and the names of those that are refused."""
    passed, refused = [], []
    for one in resources:
        topic = await _mapped(call, one.resource_type, one.resource_name)
        if topic is not None and any(map(compacts, one.configs)):
            refused.append(one.resource_name)
            continue
        if topic is not None:
            for config in one.configs:
                scale_up(config, topic.lanes)
        passed.append(one)
    return passed, refused


async def alter_configs(call: ProxyCall) -> ProxyAnswer:
    """Pass settings on, unless a mapped topic would be compacted."""
    return await _alter(
        call, alter_messages.AlterConfigsResponse, alter_messages.AlterConfigsResourceResponse
    )


async def incremental_alter_configs(call: ProxyCall) -> ProxyAnswer:
    """The same, for single settings."""
    return await _alter(
        call,
        incremental_messages.IncrementalAlterConfigsResponse,
        incremental_messages.AlterConfigsResourceResponse,
    )


async def _alter(call: ProxyCall, response: type[_A], row: type[Any]) -> _A:
    """Pass on what may be altered; the answer has a row for each resource that is refused, too."""
    request = call.message
    request.resources, refused = await _sorted(call, request.resources)
    answer = await call.ask(request, response) if request.resources else response()
    for name in refused:
        answer.responses.append(row(ErrorCode.INVALID_CONFIG, COMPACTED, _TOPIC, name))
    return answer


async def describe_configs(call: ProxyCall) -> ProxyAnswer:
    """Settings of mapped topics for one virtual partition."""
    answer = await call.ask(call.message, DescribeConfigsResponse)
    for row in answer.results:
        topic = await _mapped(call, row.resource_type, row.resource_name)
        for config in row.configs if topic is not None else ():
            if config.name == _SCALED and topic is not None:
                config.value = scaled_down(config.value, topic.lanes)
                for synonym in config.synonyms:
                    synonym.value = scaled_down(synonym.value, topic.lanes)
    return answer
