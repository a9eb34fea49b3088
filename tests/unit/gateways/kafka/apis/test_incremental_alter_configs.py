import asyncio

import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from tests.unit.gateways.kafka.caller import Caller

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


async def alter(
    caller: Caller,
    *rows: tuple[str, int, str | None],
    name: str = "t",
    kind: int = TOPIC,
    version: int = 1,
    validate_only: bool = False,
) -> AlterConfigsResourceResponse:
    configs = [AlterableConfig(*row) for row in rows]
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(kind, name, configs)], validate_only
    )
    (result,) = (await caller.ask(request, version)).responses
    assert isinstance(result, AlterConfigsResourceResponse)
    return result


@pytest.mark.parametrize("version", range(2))
async def test_every_version_changes_only_what_is_named(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await caller.create("t", configs={"retention.ms": "5", "segment.bytes": "1000"})
    result = await alter(
        caller, ("retention.bytes", SET, "9"), ("segment.bytes", DELETE, None), version=version
    )
    assert (result.error_code, result.error_message) == (0, None)
    assert broker.engine.topics.get("t").descriptor.configs == {
        "retention.ms": "5",
        "retention.bytes": "9",
    }


@pytest.mark.parametrize(
    ("operations", "policy"),
    [
        ([(APPEND, "compact")], "delete,compact"),
        ([(APPEND, "delete")], "delete"),
        ([(APPEND, "compact"), (SUBTRACT, "delete")], "compact"),
        ([(SUBTRACT, "delete")], ""),
        ([(APPEND, "compact"), (SUBTRACT, "compact,delete")], ""),
        ([(SUBTRACT, "delete"), (APPEND, "compact")], "compact"),
    ],
)
async def test_lists_grow_and_shrink_from_what_counts_now(
    broker: InProcessBroker, caller: Caller, operations: list[tuple[int, str]], policy: str
) -> None:
    await caller.create("t")
    for operation in operations:
        assert (await alter(caller, ("cleanup.policy", *operation))).error_code == 0
    topic = broker.engine.topics.get("t")
    assert topic.descriptor.configs["cleanup.policy"] == policy
    assert topic.settings.deletes is ("delete" in policy)
    assert topic.settings.compacted is ("compact" in policy)


async def test_validate_only_changes_nothing(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t")
    assert (await alter(caller, ("retention.ms", SET, "6"), validate_only=True)).error_code == 0
    bad = await alter(caller, ("retention.ms", SET, "six"), validate_only=True)
    assert bad.error_code == ErrorCode.INVALID_CONFIG
    assert broker.engine.topics.get("t").descriptor.configs == {}


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("no.such", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("no.such", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST),
        (("retention.ms", -1, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    broker: InProcessBroker, caller: Caller, row: tuple[str, int, str | None], code: int
) -> None:
    await caller.create("t")
    result = await alter(caller, ("retention.bytes", SET, "9"), row)
    assert result.error_code == code
    assert row[0] in str(result.error_message)
    assert broker.engine.topics.get("t").descriptor.configs == {}, "all or nothing"


async def test_unknown_topics_brokers_and_repetitions_are_refused(caller: Caller) -> None:
    await caller.create("t")
    row = ("retention.ms", SET, "5")
    unknown = await alter(caller, row, name="missing")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker = await alter(caller, row, name="1", kind=BROKER)
    assert broker.error_code == ErrorCode.INVALID_REQUEST
    assert "read-only" in str(broker.error_message)
    assert (await alter(caller, row, row)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "configs", [{"storage.placement": "shared"}, {"physical.partitions": "1"}], ids=str
)
async def test_to_delete_where_a_topic_lies_is_to_move_it_where_others_are(
    broker: InProcessBroker, caller: Caller, configs: dict[str, str | None]
) -> None:
    await caller.create("t", configs=configs)
    topic = broker.engine.topics.get("t")
    rows = [(name, DELETE, None) for name in configs]
    assert (await alter(caller, *rows, validate_only=True)).error_code == 0
    assert topic.descriptor.moving is None
    assert (await alter(caller, *rows)).error_code == 0
    async with asyncio.timeout(20):
        while topic.descriptor.layout != "ordinary":
            await asyncio.sleep(0.01)
    assert not topic.descriptor.configs.keys() & configs.keys()


async def test_a_broker_has_no_throttle_to_delete(broker: InProcessBroker, caller: Caller) -> None:
    row = ("leader.replication.throttled.rate", DELETE, None)
    for name in (str(broker.engine.identity.broker_id), ""):
        assert (await alter(caller, row, name=name, kind=BROKER)).error_code == 0
    other = await alter(caller, row, name="77", kind=BROKER)
    assert other.error_code == ErrorCode.INVALID_REQUEST
    (name, _, _), here = row, str(broker.engine.identity.broker_id)
    set_it = await alter(caller, (name, SET, "1000"), name=here, kind=BROKER)
    assert set_it.error_code == ErrorCode.INVALID_REQUEST
