import pytest

from kafscale.objects.memory import MemoryObjectStore
from kafscale.settings.sections import BrokerSection, TopicsSection
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafscale.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from kafscale.wire.kafka.schema import NO_UUID
from tests.unit.gateways.kafka.caller import Caller
from tests.unit.gateways.kafka.settings import changed

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def topics(
    caller: Caller, *names: str, version: int = 12, create: bool = True
) -> list[MetadataResponseTopic]:
    request = MetadataRequest([MetadataRequestTopic(NO_UUID, name) for name in names], create)
    found: list[MetadataResponseTopic] = (await caller.ask(request, version)).topics
    return found


@pytest.mark.parametrize("version", range(13))
async def test_every_version_tells_the_cluster_and_a_topic(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await caller.create("t", 3)
    request = MetadataRequest([MetadataRequestTopic(NO_UUID, "t")])
    answer = await caller.ask(request, version)
    assert [(row.host, row.port) for row in answer.brokers] == [("127.0.0.1", broker.port)]
    (topic,) = answer.topics
    assert (topic.name, topic.error_code) == ("t", 0)
    assert [row.partition_index for row in topic.partitions] == [0, 1, 2]
    node = answer.brokers[0].node_id
    for row in topic.partitions:
        assert (row.leader_id, row.replica_nodes, row.isr_nodes) == (node, [node], [node])
    if version >= 1:
        assert answer.controller_id == node
    if version >= 2:
        assert answer.cluster_id == broker.engine.identity.cluster_id
    if version >= 7:
        assert topic.partitions[0].leader_epoch == broker.engine.identity.epoch
    if version >= 10:
        assert topic.topic_id == broker.engine.topics.get("t").topic_id


async def test_in_version_0_no_names_mean_all_topics_and_later_none(caller: Caller) -> None:
    await caller.create("b")
    await caller.create("a")
    for version, expected in ((0, ["a", "b"]), (1, []), (9, []), (12, [])):
        answer = await caller.ask(MetadataRequest([]), version)
        assert [row.name for row in answer.topics] == expected
        assert len(answer.brokers) == 1


@pytest.mark.parametrize("version", [1, 4, 9, 12])
async def test_null_means_all_topics(caller: Caller, version: int) -> None:
    await caller.create("b")
    await caller.create("a")
    answer = await caller.ask(MetadataRequest(None), version)
    assert [row.name for row in answer.topics] == ["a", "b"]


async def test_a_missing_topic_is_created_with_the_default_number_of_partitions() -> None:
    config = changed(FOR_TESTS, topics=TopicsSection(default_partitions=4))
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        for version in (0, 3, 4, 12):
            (row,) = await topics(caller, f"new-{version}", version=version)
            assert (row.error_code, len(row.partitions)) == (0, 4)


async def test_a_missing_topic_asked_for_twice_is_created_once(caller: Caller) -> None:
    (row,) = await topics(caller, "new", "new")
    assert row.error_code == 0


async def test_many_connections_asking_at_once_get_the_same_new_topic(
    broker: InProcessBroker,
) -> None:
    callers = [await Caller(broker.port).__aenter__() for _ in range(5)]
    request = MetadataRequest([MetadataRequestTopic(NO_UUID, "new")])
    for one in callers:
        one.send(request, 12)
    answers = [await one.answer() for one in callers]
    assert {row.topics[0].error_code for row in answers} == {0}
    assert len({row.topics[0].topic_id for row in answers}) == 1
    for one in callers:
        await one.__aexit__(None, None, None)


@pytest.mark.parametrize("version", [4, 9, 12])
async def test_the_client_may_forbid_creation(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    (row,) = await topics(caller, "new", version=version, create=False)
    assert row.error_code == UNKNOWN
    assert broker.engine.topics.find("new") is None


async def test_the_broker_may_forbid_creation() -> None:
    config = changed(FOR_TESTS, topics=TopicsSection(auto_create=False))
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        for version in (0, 4, 12):
            (row,) = await topics(caller, "new", version=version)
            assert (row.name, row.error_code, row.partitions) == ("new", UNKNOWN, [])


@pytest.mark.parametrize("name", ["..", "a/b", "", "x" * 250])
async def test_a_name_no_topic_may_have_is_not_created(
    broker: InProcessBroker, caller: Caller, name: str
) -> None:
    (row,) = await topics(caller, name)
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.engine.topics.all() == []


async def test_a_name_that_collides_is_not_created(caller: Caller) -> None:
    await caller.create("a.b")
    (row,) = await topics(caller, "a_b")
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_topic_can_be_asked_for_by_id(caller: Caller) -> None:
    made = await caller.create("t")
    request = MetadataRequest([MetadataRequestTopic(made.topic_id, None)])
    (row,) = (await caller.ask(request, 12)).topics
    assert (row.name, row.topic_id, row.error_code) == ("t", made.topic_id, 0)


@pytest.mark.parametrize(("version", "name"), [(10, ""), (11, ""), (12, None)])
async def test_an_unknown_id_is_told_so_and_creates_nothing(
    broker: InProcessBroker, caller: Caller, version: int, name: str | None
) -> None:
    request = MetadataRequest([MetadataRequestTopic(b"\7" * 16, None)])
    (row,) = (await caller.ask(request, version)).topics
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (row.name, row.topic_id) == (name, b"\7" * 16)
    assert broker.engine.topics.all() == []


async def test_clients_are_told_the_rack() -> None:
    config = changed(FOR_TESTS, broker=BrokerSection(port=0, rack="cellar"))
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        answer = await caller.ask(MetadataRequest([]), 12)
        assert answer.brokers[0].rack == "cellar"


async def test_many_unknown_topics_take_no_longer_than_one_while_the_store_hangs() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store) as broker, Caller(broker.port) as caller:
        stall = plan.add(Rule(Fault.STALL_BEFORE, keys="*/late-*"))
        rows = await topics(caller, *(f"late-{number}" for number in range(10)), create=False)
        assert [row.error_code for row in rows] == [UNKNOWN] * 10
        assert stall.happened == 1
        plan.clear()


async def test_asking_for_an_internal_topic_does_not_create_it(
    broker: InProcessBroker, caller: Caller
) -> None:
    asked = MetadataRequest([MetadataRequestTopic(NO_UUID, "__consumer_offsets")])
    (row,) = (await caller.ask(asked, 12)).topics
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(broker.engine.topics.all()) == []


async def test_a_topic_is_created_by_asking_for_it_right_after_it_was_deleted(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    before = broker.engine.topics.get("t").topic_id
    caller.send(DeleteTopicsRequest(topics=[DeleteTopicState("t")], timeout_ms=10_000), 6)
    caller.send(MetadataRequest([MetadataRequestTopic(NO_UUID, "t")]), 12)
    assert (await caller.answer()).responses[0].error_code == 0
    (row,) = (await caller.answer()).topics
    assert (row.error_code, row.name, len(row.partitions)) == (0, "t", 1)
    assert row.topic_id != before
