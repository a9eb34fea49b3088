import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kafscale.model.configs.topic_configs import TOPIC_CONFIGS
from kafscale.settings.sections import TopicsSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.unit.gateways.kafka.caller import Caller
from tests.unit.gateways.kafka.settings import changed

TOPIC, BROKER, LOGGER = 2, 4, 8
FROM_TOPIC, FROM_BROKER, FROM_DEFAULT = 1, 4, 5


async def describe(
    caller: Caller,
    name: str,
    kind: int = TOPIC,
    keys: list[str] | None = None,
    version: int = 4,
) -> Any:
    resource = DescribeConfigsResource(kind, name, keys)
    (result,) = (await caller.ask(DescribeConfigsRequest([resource], True, True), version)).results
    return result


async def rows(caller: Caller, name: str, kind: int = TOPIC, version: int = 4) -> dict[str, Any]:
    result = await describe(caller, name, kind, version=version)
    assert result.error_code == 0, result.error_message
    return {row.name: row for row in result.configs}


@pytest.mark.parametrize("version", range(5))
async def test_every_version_tells_every_setting_of_a_topic(caller: Caller, version: int) -> None:
    await caller.create("t", configs={"retention.ms": "5"})
    found = await rows(caller, "t", version=version)
    assert list(found) == sorted(TOPIC_CONFIGS)
    own, other = found["retention.ms"], found["cleanup.policy"]
    assert (own.value, other.value, own.read_only) == ("5", "delete", False)
    if version == 0:
        assert (own.is_default, other.is_default) == (False, True)
    else:
        assert (own.config_source, other.config_source) == (FROM_TOPIC, FROM_DEFAULT)
        assert [(one.name, one.value, one.source) for one in own.synonyms] == [
            ("retention.ms", "5", FROM_TOPIC),
            ("log.retention.ms", "604800000", FROM_DEFAULT),
        ]
    if version >= 3:
        assert (own.config_type, other.config_type) == (5, 7)
        assert own.documentation == TOPIC_CONFIGS["retention.ms"].doc


async def test_synonyms_and_documentation_are_told_to_those_who_ask(caller: Caller) -> None:
    await caller.create("t")
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "t", ["retention.ms"])])
    (row,) = (await caller.ask(request, 4)).results[0].configs
    assert (row.synonyms, row.documentation) == ([], None)


async def test_what_the_brokers_configuration_says_is_told_as_that() -> None:
    config = changed(FOR_TESTS, topics=TopicsSection(retention_ms=7, default_partitions=3))
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        await caller.create("t", configs={"retention.ms": "5"})
        own = (await rows(caller, "t"))["retention.ms"]
        assert [(one.name, one.value, one.source) for one in own.synonyms] == [
            ("retention.ms", "5", FROM_TOPIC),
            ("log.retention.ms", "7", FROM_BROKER),
            ("log.retention.ms", "604800000", FROM_DEFAULT),
        ]
        found = await rows(caller, str(broker.engine.identity.broker_id), BROKER)
        assert (found["num.partitions"].value, found["num.partitions"].config_source) == (
            "3",
            FROM_BROKER,
        )
        assert found["auto.create.topics.enable"].config_source == FROM_DEFAULT


async def test_where_a_topic_lies_is_told_with_who_said_so() -> None:
    storage = msgspec.structs.replace(FOR_TESTS.storage, placement="shared")
    async with (
        InProcessBroker(config=changed(FOR_TESTS, storage=storage)) as broker,
        Caller(broker.port) as caller,
    ):
        topics = broker.engine.topics

        async def told(name: str) -> list[tuple[str, int]]:
            row = (await rows(caller, "t"))[name]
            return [(one.value, one.source) for one in row.synonyms]

        def without(old: Mapping[str, str]) -> Mapping[str, str | None]:
            return {key: value for key, value in old.items() if key != "storage.placement"}

        await caller.create("t", configs={"storage.placement": "dedicated"})
        by_default = [("shared", FROM_BROKER), ("dedicated", FROM_DEFAULT)]
        assert await told("storage.placement") == [("dedicated", FROM_TOPIC), *by_default]
        await broker.engine.topics.change_configs("t", without)
        async with asyncio.timeout(20):
            while not topics.get("t").uses_shared_logs:
                await asyncio.sleep(0.01)
        assert await told("storage.placement") == by_default
        assert await told("physical.partitions") == [("-1", FROM_DEFAULT)]
        # The file says otherwise after a restart: the topic lies where it is.
        back = msgspec.structs.replace(topics._registry.rules.defaults, placement="dedicated")
        topics._registry.rules = dataclasses.replace(topics._registry.rules, defaults=back)
        assert await told("storage.placement") == [
            ("shared", FROM_TOPIC),
            ("dedicated", FROM_DEFAULT),
        ]


async def test_only_the_settings_asked_for_are_told(caller: Caller) -> None:
    await caller.create("t")
    result = await describe(caller, "t", keys=["segment.bytes", "missing", "retention.ms"])
    assert [row.name for row in result.configs] == ["retention.ms", "segment.bytes"]


async def test_a_brokers_settings_have_the_names_tools_look_for(
    broker: InProcessBroker, caller: Caller
) -> None:
    found = await rows(caller, str(broker.engine.identity.broker_id), BROKER)
    assert all(row.read_only for row in found.values())
    assert {name: found[name].value for name in TOOLS} == TOOLS
    assert found["broker.id"].value == str(broker.engine.identity.broker_id)


TOOLS = {
    "auto.create.topics.enable": "true",
    "compression.type": "producer",
    "delete.topic.enable": "true",
    "log.flush.interval.ms": "0",
    "log.retention.ms": "604800000",
    "log.segment.bytes": "104857600",
    "message.max.bytes": "1048588",
    "num.partitions": "1",
}


async def test_loggers_and_the_default_of_all_brokers_have_no_settings(
    broker: InProcessBroker, caller: Caller
) -> None:
    assert await rows(caller, "", BROKER) == {}
    assert await rows(caller, str(broker.engine.identity.broker_id), LOGGER) == {}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "77", ErrorCode.INVALID_REQUEST),
        (LOGGER, "x", ErrorCode.INVALID_REQUEST),
        (16, "", ErrorCode.INVALID_REQUEST),
        (32, "", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_have_settings_is_refused(
    caller: Caller, kind: int, name: str, code: int
) -> None:
    result = await describe(caller, name, kind)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


async def test_a_resource_named_twice_is_refused_and_the_others_are_not(caller: Caller) -> None:
    await caller.create("t")
    await caller.create("u")
    asked = [DescribeConfigsResource(TOPIC, name, None) for name in ("t", "u", "t")]
    results = (await caller.ask(DescribeConfigsRequest(asked), 4)).results
    assert [row.error_code for row in results] == [42, 0, 42]


async def test_a_request_out_of_all_proportion_is_refused(caller: Caller) -> None:
    asked = [DescribeConfigsResource(TOPIC, f"t{at}", None) for at in range(10_001)]
    results = (await caller.ask(DescribeConfigsRequest(asked), 4)).results
    assert {row.error_code for row in results} == {ErrorCode.INVALID_REQUEST}


async def test_client_metrics_have_no_settings(caller: Caller) -> None:
    result = await describe(caller, "x", 16)
    assert (result.error_code, result.configs) == (0, [])
