import pytest

from kafscale.objects.memory import MemoryObjectStore
from kafscale.settings.sections import TopicsSection
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.unit.gateways.kafka.caller import Caller
from tests.unit.gateways.kafka.settings import changed


@pytest.mark.parametrize("version", range(8))
async def test_every_version_creates_a_topic(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    made = await caller.create("t", 2, configs={"retention.ms": "1000"}, version=version)
    assert made.error_code == 0
    topic = broker.engine.topics.get("t")
    assert (topic.partitions, topic.settings.retention_ms) == (2, 1000)
    if version >= 7:
        assert made.topic_id == topic.topic_id


async def test_the_answer_tells_what_the_topic_got(caller: Caller) -> None:
    made = await caller.create("t", 3, configs={"retention.ms": "1000"}, replication=3)
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    assert made.configs is not None
    told = {row.name: (row.value, row.config_source) for row in made.configs}
    assert told["retention.ms"] == ("1000", 1)
    assert told["max.message.bytes"] == ("1048588", 5)
    assert list(told) == sorted(told)


async def test_validate_only_says_the_same_and_creates_nothing(
    broker: InProcessBroker, caller: Caller
) -> None:
    asked = await caller.create("t", 3, configs={"retention.ms": "1"}, validate_only=True)
    assert (asked.error_code, asked.num_partitions) == (0, 3)
    assert broker.engine.topics.find("t") is None
    made = await caller.create("t", 3, configs={"retention.ms": "1"})
    assert made.configs == asked.configs
    again = await caller.create("t", 3, validate_only=True)
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    bad = await caller.create("u", 0, validate_only=True)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS


async def test_a_topic_that_exists_is_not_created_again(caller: Caller) -> None:
    first = await caller.create("t")
    again = await caller.create("t")
    assert (first.error_code, again.error_code) == (0, ErrorCode.TOPIC_ALREADY_EXISTS)
    assert again.error_message == "topic 't' exists already"


async def test_a_name_used_twice_in_one_request_is_refused_and_the_others_are_made(
    broker: InProcessBroker, caller: Caller
) -> None:
    rows = [CreatableTopic(name, 1, 1) for name in ("a", "twice", "b", "twice")]
    answer = await caller.ask(CreateTopicsRequest(rows), 7)
    assert [row.error_code for row in answer.topics] == [0, 42, 0, 42]
    assert [topic.name for topic in broker.engine.topics.all()] == ["a", "b"]


async def test_minus_one_asks_for_the_default_number_of_partitions() -> None:
    config = changed(FOR_TESTS, topics=TopicsSection(default_partitions=5))
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        made = await caller.create("t", -1, replication=-1)
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 5, 1)


async def test_partitions_may_be_given_as_assignments(
    broker: InProcessBroker, caller: Caller
) -> None:
    made = await caller.create("t", -1, replication=-1, assignments={1: [0], 0: [0], 2: [0, 7]})
    assert (made.error_code, made.num_partitions) == (0, 3)
    assert broker.engine.topics.get("t").partitions == 3


@pytest.mark.parametrize(
    ("partitions", "replication", "assignments", "code"),
    [
        (-1, -1, {0: [0], 2: [0]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (-1, -1, {1: [0]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (-1, -1, {0: []}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, -1, {0: [0]}, ErrorCode.INVALID_REQUEST),
        (-1, 1, {0: [0]}, ErrorCode.INVALID_REQUEST),
        (0, 1, None, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, None, ErrorCode.INVALID_PARTITIONS),
        (1025, 1, None, ErrorCode.INVALID_PARTITIONS),
        (1, 0, None, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, None, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
async def test_numbers_that_do_not_add_up_are_refused(
    caller: Caller,
    partitions: int,
    replication: int,
    assignments: dict[int, list[int]] | None,
    code: ErrorCode,
) -> None:
    made = await caller.create("t", partitions, replication=replication, assignments=assignments)
    assert made.error_code == code
    assert made.error_message


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("no.such.thing", "1", "no.such.thing: no topic setting has this name"),
        ("retention.ms", "soon", "retention.ms: expected an integer"),
        ("cleanup.policy", "burn", "cleanup.policy: expected delete, compact, both or nothing"),
        ("max.message.bytes", None, "max.message.bytes: expected an integer"),
        ("kafscale.acks1", "maybe", "kafscale.acks1: expected one of durable, buffered"),
    ],
)
async def test_a_bad_setting_is_refused_with_the_reason(
    broker: InProcessBroker, caller: Caller, name: str, value: str | None, why: str
) -> None:
    made = await caller.create("t", configs={name: value})
    assert made.error_code == ErrorCode.INVALID_CONFIG
    assert made.error_message is not None
    assert made.error_message.startswith(why)
    assert broker.engine.topics.find("t") is None


async def test_settings_without_a_meaning_here_are_accepted_and_shown(caller: Caller) -> None:
    made = await caller.create("t", configs={"min.insync.replicas": "2", "segment.ms": "1000"})
    assert made.error_code == 0
    assert made.configs is not None
    assert {row.name: row.value for row in made.configs}["min.insync.replicas"] == "2"


async def test_the_time_of_a_request_is_for_all_its_topics_together() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store) as broker, Caller(broker.port) as caller:
        stall = plan.add(Rule(Fault.STALL_BEFORE, keys="*/late-*"))
        rows = [CreatableTopic(f"late-{number}", 1, 1) for number in range(10)]
        answer = await caller.ask(CreateTopicsRequest(rows, timeout_ms=1), 7)
        assert {row.error_code for row in answer.topics} == {ErrorCode.REQUEST_TIMED_OUT}
        assert stall.happened == 1, "the others are not begun: no client waits for them"
        plan.clear()


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_a_name_that_kafka_keeps_for_brokers_is_refused(caller: Caller, name: str) -> None:
    result = await caller.create(name)
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "only brokers" in (result.error_message or "")
