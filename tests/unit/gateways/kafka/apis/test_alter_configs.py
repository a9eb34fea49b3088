import asyncio

import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)
from tests.unit.gateways.kafka.caller import Caller, make_batch

TOPIC, BROKER, LOGGER = 2, 4, 8


async def alter(
    caller: Caller,
    configs: dict[str, str | None],
    name: str = "t",
    kind: int = TOPIC,
    version: int = 2,
    validate_only: bool = False,
) -> AlterConfigsResourceResponse:
    rows = [AlterableConfig(*row) for row in configs.items()]
    request = AlterConfigsRequest([AlterConfigsResource(kind, name, rows)], validate_only)
    (result,) = (await caller.ask(request, version)).responses
    assert isinstance(result, AlterConfigsResourceResponse)
    return result


@pytest.mark.parametrize("version", range(3))
async def test_every_version_replaces_all_settings(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await caller.create("t", configs={"retention.ms": "5", "segment.bytes": "1000"})
    wanted: dict[str, str | None] = {"retention.ms": "6", "retention.bytes": "9"}
    result = await alter(caller, wanted, version=version)
    assert (result.error_code, result.error_message) == (0, None)
    topic = broker.engine.topics.get("t")
    assert topic.descriptor.configs == wanted
    assert topic.settings.segment_bytes == 104857600, "back to the default"


async def test_validate_only_changes_nothing(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t", configs={"retention.ms": "5"})
    assert (await alter(caller, {"retention.ms": "6"}, validate_only=True)).error_code == 0
    bad = await alter(caller, {"retention.ms": "six"}, validate_only=True)
    assert bad.error_code == ErrorCode.INVALID_CONFIG
    assert broker.engine.topics.get("t").settings.retention_ms == 5


async def test_a_smaller_limit_binds_the_next_batch(caller: Caller) -> None:
    await caller.create("t")
    big = make_batch(b"x" * 5000)
    assert (await caller.produce("t", big)).error_code == 0
    assert (await alter(caller, {"max.message.bytes": "1000"})).error_code == 0
    assert (await caller.produce("t", big)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await alter(caller, {})).error_code == 0
    assert (await caller.produce("t", big)).error_code == 0


@pytest.mark.parametrize(
    ("configs", "kind", "name", "code", "reason"),
    [
        ({"retention.ms": "x"}, TOPIC, "t", ErrorCode.INVALID_CONFIG, "retention.ms"),
        ({"no.such": "1"}, TOPIC, "t", ErrorCode.INVALID_CONFIG, "no.such"),
        ({"retention.ms": None}, TOPIC, "t", ErrorCode.INVALID_REQUEST, "retention.ms"),
        ({}, TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "missing"),
        ({"num.partitions": "2"}, BROKER, "1", ErrorCode.INVALID_REQUEST, "read-only"),
        ({"root": "DEBUG"}, LOGGER, "1", ErrorCode.INVALID_REQUEST, "read-only"),
        ({}, 32, "g", ErrorCode.INVALID_REQUEST, "groups"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    broker: InProcessBroker,
    caller: Caller,
    configs: dict[str, str | None],
    kind: int,
    name: str,
    code: int,
    reason: str,
) -> None:
    await caller.create("t", configs={"retention.ms": "5"})
    result = await alter(caller, configs, name, kind)
    assert result.error_code == code
    assert reason in str(result.error_message)
    assert broker.engine.topics.get("t").descriptor.configs == {"retention.ms": "5"}


async def test_settings_and_resources_given_twice_are_refused(caller: Caller) -> None:
    for name in "tuv":
        await caller.create(name)
    twice = [AlterableConfig("retention.ms", "5"), AlterableConfig("retention.ms", "6")]
    asked = [
        AlterConfigsResource(TOPIC, "t", twice),
        AlterConfigsResource(TOPIC, "u", []),
        AlterConfigsResource(TOPIC, "u", []),
        AlterConfigsResource(TOPIC, "v", []),
    ]
    results = (await caller.ask(AlterConfigsRequest(asked), 2)).responses
    assert [row.error_code for row in results] == [42, 42, 42, 0]


async def test_a_topic_whose_place_is_not_named_goes_where_others_are(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t", configs={"storage.placement": "shared"})
    topic = broker.engine.topics.get("t")
    assert (await alter(caller, {"retention.ms": "6"})).error_code == 0
    async with asyncio.timeout(20):
        while topic.descriptor.layout != "ordinary":
            await asyncio.sleep(0.01)
    assert topic.descriptor.configs == {"retention.ms": "6"}


async def test_the_number_of_logs_stays_unless_it_is_named(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t", 2, configs={"physical.partitions": "1"})
    topic = broker.engine.topics.get("t")
    assert (await alter(caller, {"retention.ms": "6"})).error_code == 0
    assert (topic.descriptor.moving, topic.descriptor.logs) == (None, 1)
    assert (await alter(caller, {"storage.placement": "shared"})).error_code == 0
    async with asyncio.timeout(20):
        while topic.descriptor.layout != "shared":
            await asyncio.sleep(0.01)
    assert "physical.partitions" not in topic.descriptor.configs
