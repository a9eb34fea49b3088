"""ListConfigResources: API 74, versions 0-1.

v0  subscriptions of client metrics: there are none
v1  resources of every type: topics, brokers, loggers, and groups with settings of their own
"""

from collections.abc import Callable, Iterable
from typing import Final

from kafscale.gateways.kafka import resources
from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import READS_TOPICS
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

API_KEY: Final = ListConfigResourcesRequest.api_key
VERSIONS: Final = ListConfigResourcesRequest.versions
ORDER: Final = READS_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE_CONFIGS,
        ResourceType.CLUSTER,
        cluster,
        error_alone(ListConfigResourcesResponse),
    ),
)


def _list_topics(call: Call) -> Iterable[str]:
    return (topic.name for topic in call.engine.topics.all())


def _list_brokers(call: Call) -> Iterable[str]:
    return (str(node.broker_id) for node in call.engine.cluster.nodes())


def _list_groups(call: Call) -> Iterable[str]:
    return call.engine.groups.configs


def _list_nothing(call: Call) -> Iterable[str]:
    return ()


_NAMES_OF: Final[dict[int, Callable[[Call], Iterable[str]]]] = {
    resources.TOPIC: _list_topics,
    resources.BROKER: _list_brokers,
    resources.BROKER_LOGGER: _list_brokers,
    resources.CLIENT_METRICS: _list_nothing,
    resources.GROUP: _list_groups,
}


def answer(call: Call) -> Answer:
    """List the resources of the types asked for; no type means all."""
    request: ListConfigResourcesRequest = call.message
    if call.version == 0:
        return ListConfigResourcesResponse()
    unknown = sorted(set(request.resource_types) - _NAMES_OF.keys())
    if unknown:
        client_errors.note_bad(call, "unsupported_version", f"resources of types {unknown}")
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    kinds = dict.fromkeys(request.resource_types) or _NAMES_OF
    rows = [ConfigResource(name, kind) for kind in kinds for name in _NAMES_OF[kind](call)]
    return ListConfigResourcesResponse(config_resources=rows)
