"""Clients are told the endpoints of the listener they came in by."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.model.endpoints import Endpoint
from kafscale.objects.memory import MemoryObjectStore
from kafscale.settings.config import Config
from kafscale.settings.listeners import Listeners, ListenerSetting
from kafscale.settings.sections import EtcdSection
from kafscale.system import SystemClock
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from kafscale.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafscale.wire.kafka.schema import NO_UUID
from tests.unit.gateways.kafka.caller import Caller

PARTITIONS = 16


def with_listeners(broker_id: int, *names: str) -> Config:
    rows = [
        ListenerSetting(
            name=name, protocol="PLAINTEXT", port=0, advertised_host=f"{name.lower()}-{broker_id}"
        )
        for name in names
    ]
    return replace(
        FOR_TESTS,
        broker=replace(FOR_TESTS.broker, id=broker_id),
        listeners=Listeners(rows),
        etcd=EtcdSection(gather_time=0.05),
    )


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[list[InProcessBroker]]:
    """Broker 0 has two listeners, broker 1 only the inner one."""
    store = MemoryObjectStore()
    metadata = EmbeddedMetadataStore(tmp_path / "metadata.db", "OFF", SystemClock())
    configs = [with_listeners(0, "INNER", "OUTER"), with_listeners(1, "INNER")]
    made = [
        InProcessBroker(config=config, store=store, metadata=metadata, has_peers=True)
        for config in configs
    ]
    async with made[0], made[1]:
        yield made
    await metadata.aclose()


def endpoint(broker: InProcessBroker, name: str) -> Endpoint:
    own = broker.engine.identity.broker_id
    (node,) = (one for one in broker.engine.cluster.nodes() if one.broker_id == own)
    return node.endpoints[name]


async def test_brokers_without_the_listener_of_a_client_are_left_out(
    brokers: list[InProcessBroker],
) -> None:
    inner = [endpoint(broker, "INNER") for broker in brokers]
    outer = endpoint(brokers[0], "OUTER")
    asked = MetadataRequest([MetadataRequestTopic(NO_UUID, "t")])
    async with Caller(inner[0].port) as inside, Caller(outer.port) as outside:
        await inside.create("t", PARTITIONS)
        answer = await inside.ask(asked, 12)
        assert [(row.host, row.port) for row in answer.brokers] == [
            (one.host, one.port) for one in inner
        ]
        assert {row.leader_id for row in answer.topics[0].partitions} == {0, 1}
        answer = await outside.ask(asked, 12)
        assert [(row.host, row.port) for row in answer.brokers] == [(outer.host, outer.port)]
        rows = answer.topics[0].partitions
        assert {(row.leader_id, row.error_code) for row in rows} == {
            (0, 0),
            (-1, ErrorCode.LISTENER_NOT_FOUND),
        }
        codes = {row.error_code for row in (await outside.ask(asked, 5)).topics[0].partitions}
        assert codes == {0, ErrorCode.LEADER_NOT_AVAILABLE}
        cluster = await outside.ask(DescribeClusterRequest(), 1)
        assert [(row.host, row.port) for row in cluster.brokers] == [(outer.host, outer.port)]


async def test_a_coordinator_without_the_listener_of_a_client_is_not_available(
    brokers: list[InProcessBroker],
) -> None:
    outer = endpoint(brokers[0], "OUTER")
    groups = [f"g{number}" for number in range(PARTITIONS)]
    async with Caller(outer.port) as outside:
        answer = await outside.ask(FindCoordinatorRequest(coordinator_keys=groups), 4)
    told = {(row.error_code, row.node_id, row.host) for row in answer.coordinators}
    assert told == {
        (0, 0, outer.host),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, ""),
    }
