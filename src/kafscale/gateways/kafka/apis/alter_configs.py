"""AlterConfigs: API 33, versions 0-2.

The settings given replace all that the topic had; those not given get their defaults. The number
of its logs stays: a tool that does not know this setting would multiply the cost of the topic.
"""

from collections.abc import Mapping
from typing import Final

from kafscale.gateways.kafka import resources
from kafscale.gateways.kafka.access.api_requirements import ConfigResources
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import CHANGES_TOPICS
from kafscale.model.errors import InvalidRequest
from kafscale.model.security.access import AccessOperation
from kafscale.wire.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

API_KEY: Final = AlterConfigsRequest.api_key
VERSIONS: Final = AlterConfigsRequest.versions
ORDER: Final = CHANGES_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    ConfigResources(AccessOperation.ALTER_CONFIGS, "responses", AlterConfigsResourceResponse),
)
_KEPT: Final = ("physical.partitions",)


def answer(call: Call) -> Answer:
    """Alter every resource, each with its own result."""
    return _answer(call)


async def _answer(call: Call) -> AlterConfigsResponse:
    results = await resources.alter_each(call, AlterConfigsResourceResponse, _alter)
    return AlterConfigsResponse(responses=results)


async def _alter(call: Call, resource: AlterConfigsResource) -> None:
    resources.check_alterable(resource)
    resources.check_once(config.name for config in resource.configs)
    missing = sorted(config.name for config in resource.configs if config.value is None)
    if missing:
        raise InvalidRequest(f"no value for {', '.join(missing)}")
    wanted = {config.name: config.value for config in resource.configs}

    def change(old: Mapping[str, str]) -> Mapping[str, str | None]:
        return {name: old[name] for name in _KEPT if name in old} | wanted

    await resources.alter(call, resource.resource_name, change)
