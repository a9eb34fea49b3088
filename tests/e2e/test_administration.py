"""Administration with the administrators' clients that people use, at default settings."""

from collections.abc import Callable

import pytest

from kafscale.model.configs.topic_configs import FIXED_AT_CREATION
from tests.e2e.conftest import AGAINST
from tests.e2e.test_clients import eventually, topic_name
from tests.support.clients.base import Client, ClientError, Record
from tests.support.clients.confluent import Confluent
from tests.support.process import BrokerProcess

ADMINISTRATORS = ("confluent", "kafka-python", "java-4", "java-2.8")


@pytest.fixture(params=ADMINISTRATORS)
def admin(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Client:
    return client_named(request.param)


@pytest.fixture
def topic(admin: Client) -> str:
    name = topic_name("admin")
    admin.create_topic(name, 1)
    eventually(admin.list_topics, lambda topics: name in topics)
    return name


def own_settings(admin: Client, topic: str) -> dict[str, str]:
    """What was set since; a virtual topic also shows what it is made of."""
    found = admin.configs(topic)
    return {name: value for name, value in found.items() if name not in FIXED_AT_CREATION}


def test_settings_are_set_and_deleted_one_by_one(admin: Client, topic: str) -> None:
    assert own_settings(admin, topic) == {}
    admin.alter_config(topic, "SET", "retention.ms", "60000")
    admin.alter_config(topic, "SET", "max.message.bytes", "2000000")
    wanted = {"retention.ms": "60000", "max.message.bytes": "2000000"}
    assert eventually(lambda: own_settings(admin, topic), lambda found: found == wanted) == wanted
    admin.alter_config(topic, "DELETE", "retention.ms", None)
    wanted = {"max.message.bytes": "2000000"}
    assert eventually(lambda: own_settings(admin, topic), lambda found: found == wanted) == wanted


def test_lists_are_appended_to_and_subtracted_from(admin: Client, topic: str) -> None:
    admin.alter_config(topic, "APPEND", "cleanup.policy", "compact")
    wanted = {"cleanup.policy": "delete,compact"}
    assert eventually(lambda: own_settings(admin, topic), lambda found: found == wanted) == wanted
    admin.alter_config(topic, "SUBTRACT", "cleanup.policy", "delete")
    wanted = {"cleanup.policy": "compact"}
    assert eventually(lambda: own_settings(admin, topic), lambda found: found == wanted) == wanted


def test_all_settings_are_replaced(admin: Client, topic: str) -> None:
    if "replacing settings" in admin.lacks:
        pytest.skip(f"{admin.name} has no AlterConfigs")
    admin.alter_config(topic, "SET", "retention.ms", "60000")
    admin.replace_configs(topic, {"segment.bytes": "20000000"})
    wanted = {"segment.bytes": "20000000"}
    assert eventually(lambda: own_settings(admin, topic), lambda found: found == wanted) == wanted


def test_a_wrong_value_is_refused(admin: Client, topic: str) -> None:
    with pytest.raises(ClientError, match=r"retention\.ms"):
        admin.alter_config(topic, "SET", "retention.ms", "soon")
    assert own_settings(admin, topic) == {}


def test_the_brokers_settings_can_be_read(admin: Client) -> None:
    (broker,) = admin.cluster().brokers
    assert admin.broker_config(broker, "auto.create.topics.enable") == "true"
    assert int(admin.broker_config(broker, "log.segment.bytes")) > 0


def test_new_partitions_take_records(admin: Client, topic: str) -> None:
    admin.produce(topic, [Record(0, b"k", b"old")])
    admin.create_partitions(topic, 3)
    eventually(admin.list_topics, lambda topics: topics[topic] == 3)
    admin.produce(topic, [Record(2, b"k", b"new")])
    found = admin.consume(topic, [0, 1, 2], 2)
    assert sorted((row.partition, row.value) for row in found) == [(0, b"old"), (2, b"new")]
    with pytest.raises(ClientError):
        admin.create_partitions(topic, 2)


def test_deleted_records_are_gone(admin: Client, topic: str) -> None:
    admin.produce(topic, [Record(0, b"k", b"%d" % at) for at in range(10)])
    assert admin.delete_records(topic, 0, 4) == 4
    assert admin.earliest(topic, 0) == 4
    found = admin.consume(topic, [0], 6)
    assert [row.offset for row in found] == [4, 5, 6, 7, 8, 9]
    with pytest.raises(ClientError):
        admin.delete_records(topic, 0, 11)
    assert admin.delete_records(topic, 0, -1) == 10
    assert admin.latest(topic, 0) == 10


def test_changes_survive_a_killed_broker(own_broker: BrokerProcess) -> None:
    if AGAINST == "apache":
        pytest.skip("Apache Kafka notes log starts once a minute and forgets them when killed")
    client = Confluent(own_broker.bootstrap)
    client.create_topic("t", 1)
    client.alter_config("t", "SET", "retention.ms", "86400000")
    client.create_partitions("t", 2)
    client.produce("t", [Record(1, b"k", b"%d" % at) for at in range(5)])
    assert client.delete_records("t", 1, 3) == 3
    own_broker.kill()
    own_broker.start()
    again = Confluent(own_broker.bootstrap)
    assert own_settings(again, "t") == {"retention.ms": "86400000"}
    assert eventually(again.list_topics, lambda topics: "t" in topics)["t"] == 2
    assert (again.earliest("t", 1), again.latest("t", 1)) == (3, 5)
