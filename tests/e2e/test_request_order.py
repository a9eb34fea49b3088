"""A client that does not wait for answers sees what its earlier requests did."""

from confluent_kafka import Consumer, TopicPartition

from tests.e2e.test_clients import topic_name
from tests.support.clients.confluent import Confluent
from tests.support.process import BrokerProcess


def test_an_offset_is_there_behind_a_commit_that_was_not_waited_for(broker: BrokerProcess) -> None:
    topic = topic_name("order")
    Confluent(broker.bootstrap).create_topic(topic, 1)
    wanted = {"bootstrap.servers": broker.bootstrap, "group.id": topic}
    consumer = Consumer({**wanted, "enable.auto.commit": False})
    try:
        # The client keeps its first commit back until it knows the coordinator.
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        found = []
        for offset in range(2, 40):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=True)
            found += consumer.committed([TopicPartition(topic, 0)], timeout=30)
        assert [row.offset for row in found] == list(range(2, 40))
    finally:
        consumer.close()
