"""One connection through `kafscale proxy` carries more than it may hold at a time."""

import hashlib
import os
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.e2e.conftest import watched
from tests.support.apache_kafka import ApacheKafka
from tests.support.maven import Unavailable
from tests.support.proxy import ProxyProcess
from tests.support.proxy_load import create

pytestmark = pytest.mark.slow
MAPPING = {"topics": {"mapped.*": {"virtual_partitions": 4, "physical_partitions": 2}}}
SIZE = 900_000
COUNT = 100  # 86 MiB each way; a connection holds at most 64 MiB


@pytest.fixture(scope="module")
def proxy() -> Iterator[ProxyProcess]:
    try:
        kafka = ApacheKafka()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with watched(kafka), watched(ProxyProcess(kafka.bootstrap, MAPPING)) as running:
        assert isinstance(running, ProxyProcess)
        yield running


@pytest.mark.parametrize("name", ["mapped", "passed"])
def test_a_connection_carries_more_than_its_share_of_memory(proxy: ProxyProcess, name: str) -> None:
    create(proxy.bootstrap, name, 4)
    sent: list[list[bytes]] = [[] for _ in range(4)]
    lost: list[object] = []
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        value = os.urandom(SIZE)
        sent[number % 4].append(hashlib.sha256(value).digest())
        producer.produce(
            name,
            value,
            partition=number % 4,
            on_delivery=lambda error, _: lost.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not lost
    assert digests(proxy, name) == sent


def digests(proxy: ProxyProcess, topic: str) -> list[list[bytes]]:
    """What every partition holds, read from its beginning."""
    consumer = Consumer({"bootstrap.servers": proxy.bootstrap, "group.id": "all"})
    consumer.assign([TopicPartition(topic, at, OFFSET_BEGINNING) for at in range(4)])
    found: list[list[bytes]] = [[] for _ in range(4)]
    for _ in range(COUNT):
        message = consumer.poll(30)
        assert message is not None, f"{sum(map(len, found))} records of {COUNT}"
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        assert message.offset() == len(found[message.partition() or 0])
        found[message.partition() or 0].append(hashlib.sha256(value).digest())
    consumer.close()
    return found
