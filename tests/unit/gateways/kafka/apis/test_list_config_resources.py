from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.list_config_resources import ListConfigResourcesRequest
from tests.unit.gateways.kafka.caller import Caller

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


async def ask(caller: Caller, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    answer = await caller.ask(ListConfigResourcesRequest(list(kinds)), version)
    assert answer.error_code == 0
    return sorted((row.resource_type, row.resource_name) for row in answer.config_resources)


async def test_topics_brokers_and_loggers_have_settings(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("a")
    await caller.create("b")
    here = str(broker.engine.identity.broker_id)
    everything = [(TOPIC, "a"), (TOPIC, "b"), (BROKER, here), (LOGGER, here)]
    assert await ask(caller) == everything
    assert await ask(caller, TOPIC, TOPIC) == everything[:2]
    assert await ask(caller, BROKER, LOGGER) == everything[2:]


async def test_groups_and_client_metrics_have_none(caller: Caller) -> None:
    assert await ask(caller, GROUP, CLIENT_METRICS) == []
    assert await ask(caller, version=0) == []


async def test_a_type_that_kafka_does_not_know_is_refused(caller: Caller) -> None:
    answer = await caller.ask(ListConfigResourcesRequest([TOPIC, 3]), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
