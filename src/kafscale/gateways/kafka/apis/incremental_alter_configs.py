"""IncrementalAlterConfigs: API 44, versions 0-1.

Settings are set or deleted one by one. Values can be added to settings that are lists, and taken
out of them. A broker has no settings that a client can set, so there is nothing to delete, either:
kafka-reassign-partitions deletes throttles from brokers that have none.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from kafscale.gateways.kafka import resources
from kafscale.gateways.kafka.access.api_requirements import ConfigResources
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.request_order import CHANGES_TOPICS
from kafscale.model.configs.topic_configs import TOPIC_CONFIGS, ConfigType
from kafscale.model.errors import InvalidGroupConfig, InvalidRequest, InvalidTopicConfig
from kafscale.model.security.access import AccessOperation
from kafscale.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API_KEY: Final = IncrementalAlterConfigsRequest.api_key
VERSIONS: Final = IncrementalAlterConfigsRequest.versions
ORDER: Final = CHANGES_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    ConfigResources(AccessOperation.ALTER_CONFIGS, "responses", AlterConfigsResourceResponse),
)


class ConfigOperation(IntEnum):
    """What is done to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def answer(call: Call) -> Answer:
    """Alter every resource, each with its own result."""
    return _answer(call)


async def _answer(call: Call) -> IncrementalAlterConfigsResponse:
    results = await resources.alter_each(call, AlterConfigsResourceResponse, _alter)
    return IncrementalAlterConfigsResponse(responses=results)


async def _alter(call: Call, resource: AlterConfigsResource) -> None:
    resources.check_once(row.name for row in resource.configs)
    if resource.resource_type == resources.BROKER and _only_deletes(resource):
        if resource.resource_name:  # no name means all brokers
            resources.check_broker(call, resource.resource_name)
        return
    if resource.resource_type == resources.GROUP:
        await _alter_group(call, resource)
        return
    resources.check_alterable(resource)
    defaults = call.engine.topics.default_configs()

    def change(old: Mapping[str, str]) -> Mapping[str, str | None]:
        new: dict[str, str | None] = dict(old)
        for row in resource.configs:
            _apply(row, new, defaults)
        return new

    await resources.alter(call, resource.resource_name, change)


async def _alter_group(call: Call, resource: AlterConfigsResource) -> None:
    if not resource.resource_name:
        raise InvalidRequest("the name of the group is empty")

    def change(old: Mapping[str, str]) -> Mapping[str, str]:
        new: dict[str, str | None] = dict(old)
        for row in resource.configs:
            if row.config_operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
                raise InvalidGroupConfig(f"{row.name}: no setting of a group is a list")
            _apply(row, new, {})
        return {name: value for name, value in new.items() if value is not None}

    configs, only_check = call.engine.groups.configs, call.message.validate_only
    work = configs.change(resource.resource_name, change, only_check=only_check)
    await in_time(call, work, resources.ALTERED_WITHIN_S)


def _only_deletes(resource: AlterConfigsResource) -> bool:
    return all(row.config_operation == ConfigOperation.DELETE for row in resource.configs)


def _apply(row: AlterableConfig, configs: dict[str, str | None], defaults: dict[str, str]) -> None:
    """One operation on a topic's own settings."""
    if row.config_operation not in list(ConfigOperation):
        raise InvalidRequest(f"{row.name}: no operation {row.config_operation} is known")
    if row.config_operation == ConfigOperation.DELETE:
        configs.pop(row.name, None)
        return
    if row.value is None:
        raise InvalidRequest(f"no value for {row.name}")
    if row.config_operation == ConfigOperation.SET:
        configs[row.name] = row.value
        return
    config = TOPIC_CONFIGS.get(row.name)
    if config is None or config.type is not ConfigType.LIST:
        raise InvalidTopicConfig(f"{row.name}: only lists can be appended to or subtracted from")
    own = configs.get(row.name)
    present = _parts(defaults[row.name] if own is None else own)
    given = _parts(row.value)
    if row.config_operation == ConfigOperation.APPEND:
        present += [part for part in given if part not in present]
    else:
        present = [part for part in present if part not in given]
    configs[row.name] = ",".join(present)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
