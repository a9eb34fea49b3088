"""DescribeConfigs: API 32, versions 0-4.

v1  where a value comes from, and its synonyms; v3 types and documentation
Topics have every setting that Kafka knows. A broker shows the settings that Kafka's tools look
for; all of them are read-only. A group has the settings that Kafka gives groups. Loggers and
subscriptions of client metrics have no settings here, so their lists are empty.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kafscale.gateways.kafka import resources
from kafscale.gateways.kafka.access.api_requirements import ConfigResources
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import READS_TOPICS
from kafscale.model.configs.broker_configs import BROKER_NAME_OF, BrokerConfig
from kafscale.model.configs.group_configs import GROUP_CONFIGS, GroupConfig
from kafscale.model.configs.topic_configs import TOPIC_CONFIGS, TopicConfig
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.model.security.access import AccessOperation
from kafscale.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

API_KEY: Final = DescribeConfigsRequest.api_key
VERSIONS: Final = DescribeConfigsRequest.versions
ORDER: Final = READS_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    ConfigResources(AccessOperation.DESCRIBE_CONFIGS, "results", DescribeConfigsResult),
)

_FROM_TOPIC: Final = 1
_FROM_BROKER: Final = 4
_FROM_DEFAULT: Final = 5
_FROM_GROUP: Final = 8


def answer(call: Call) -> Answer:
    """Describe every resource asked for, each with its own result."""
    return _answer(call)


async def _answer(call: Call) -> DescribeConfigsResponse:
    request: DescribeConfigsRequest = call.message
    named = resources.Named(request.resources)
    results = []
    async for resource in call.each(request.resources):
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        results.append(result)
        try:
            named.check(resource)
            result.configs = _describe(call, resource)
        except KafscaleError as problem:
            resources.refuse(call, result, problem)
    return DescribeConfigsResponse(results=results)


def _describe(call: Call, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    """The rows asked for; no names given means all."""
    request: DescribeConfigsRequest = call.message
    rows: Iterable[DescribeConfigsResourceResult]
    match resource.resource_type:
        case resources.TOPIC:
            topic = call.engine.topics.get(resource.resource_name)
            defaults = call.engine.topics.default_configs(topic)
            own = topic.own_configs(defaults)
            rows = [_of_topic(own, config, defaults) for config in TOPIC_CONFIGS.values()]
        case resources.BROKER if resource.resource_name == "":
            rows = []  # no default of all brokers can be changed at run time
        case resources.BROKER:
            resources.check_broker(call, resource.resource_name)
            rows = [_of_broker(config) for config in call.engine.broker_configs]
        case resources.BROKER_LOGGER:
            resources.check_broker(call, resource.resource_name)
            rows = []
        case resources.GROUP | resources.CLIENT_METRICS:
            if not resource.resource_name:
                raise InvalidRequest("the name of the resource is empty")
            rows = []
            if resource.resource_type == resources.GROUP:
                settings = call.engine.groups.configs.of(resource.resource_name)
                rows = [_of_group(settings.own, config) for config in GROUP_CONFIGS.values()]
        case other:
            raise InvalidRequest(f"resources of type {other} have no settings here")
    wanted = set(resource.configuration_keys or ())
    selected = [row for row in rows if not wanted or row.name in wanted]
    for row in selected:
        row.is_default = row.config_source == _FROM_DEFAULT
        if not request.include_synonyms:
            row.synonyms = []
        if not request.include_documentation:
            row.documentation = None
    return sorted(selected, key=lambda row: row.name)


def _of_topic(
    own: dict[str, str], config: TopicConfig, defaults: dict[str, str]
) -> DescribeConfigsResourceResult:
    """A setting with every level that has a value for it, the level that counts first."""
    name = config.name
    levels = []
    if name in own:
        levels.append((name, own[name], _FROM_TOPIC))
    broker_name = BROKER_NAME_OF.get(name, name)
    if defaults[name] != config.default:
        levels.append((broker_name, defaults[name], _FROM_BROKER))
    levels.append((broker_name, config.default, _FROM_DEFAULT))
    return DescribeConfigsResourceResult(
        name=name,
        value=levels[0][1],
        config_source=levels[0][2],
        synonyms=[DescribeConfigsSynonym(*level) for level in levels],
        config_type=config.type.value,
        documentation=config.doc,
    )


def _of_group(own: Mapping[str, str], config: GroupConfig) -> DescribeConfigsResourceResult:
    levels = [(config.name, own[config.name], _FROM_GROUP)] if config.name in own else []
    levels.append((config.name, config.default, _FROM_DEFAULT))
    return DescribeConfigsResourceResult(
        name=config.name,
        value=levels[0][1],
        config_source=levels[0][2],
        synonyms=[DescribeConfigsSynonym(*level) for level in levels],
        config_type=config.type.value,
        documentation=config.doc,
    )


def _of_broker(config: BrokerConfig) -> DescribeConfigsResourceResult:
    source = _FROM_DEFAULT if config.is_default else _FROM_BROKER
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=True,
        config_source=source,
        synonyms=[DescribeConfigsSynonym(config.name, config.value, source)],
        config_type=config.type.value,
        documentation=config.doc,
    )
