"""librdkafka under a quota: it is told to wait, waits, and loses nothing."""

import asyncio
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafscale.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.support.broker import KafscaleProcess
from tests.support.exposition import parse, series
from tests.unit.gateways.kafka.caller import Caller

RATE = 100_000  # bytes per second
WINDOW_S = 2  # the samples but one: what may be used at once
RECORDS = [b"%d:" % number + bytes(1000) for number in range(500)]
TOPIC = "limited"


class Waits:
    """What a client says about being throttled, in its own words."""

    def __init__(self) -> None:
        self.events_s: list[float] = []
        self.longest_ms: dict[str, int] = {}
        self.sent_bytes = 0

    def throttled(self, event: Any) -> None:
        self.events_s.append(event.throttle_time)

    def stats(self, text: str) -> None:
        said = json.loads(text)
        self.sent_bytes = max(self.sent_bytes, said["txmsg_bytes"])
        for name, broker in said["brokers"].items():
            longest = max(self.longest_ms.get(name, 0), broker["throttle"]["max"])
            self.longest_ms[name] = longest

    def settings(self, bootstrap: str, client_id: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "throttle_cb": self.throttled,
            "stats_cb": self.stats,
            "statistics.interval.ms": 200,
        }


@pytest.fixture(scope="module")
def broker() -> Iterator[KafscaleProcess]:
    with KafscaleProcess(settings=["quota.windowNum=3", "quota.windowSizeSeconds=1"]) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        for topic in (TOPIC, "free"):
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        yield started


def set_quota(broker: KafscaleProcess, key: str, value: float) -> None:
    async def ask() -> int:
        entry = EntryData([EntityData("client-id", "limited")], [OpData(key, value)])
        async with Caller(broker.port) as caller:
            answer = await caller.ask(AlterClientQuotasRequest([entry]), 1)
        return int(answer.entries[0].error_code)

    assert asyncio.run(ask()) == 0


def produce(broker: KafscaleProcess, topic: str, waits: Waits, client_id: str) -> None:
    settings = waits.settings(broker.bootstrap, client_id)
    producer = Producer({**settings, "batch.size": 20_000, "linger.ms": 5})
    stored: list[int] = []

    def delivered(problem: object, message: Message) -> None:
        assert problem is None
        stored.append(message.offset() or 0)

    for value in RECORDS:
        producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(120) == 0
    assert sorted(stored) == list(range(len(RECORDS)))


def consume(broker: KafscaleProcess, topic: str, waits: Waits, client_id: str) -> None:
    settings = waits.settings(broker.bootstrap, client_id)
    consumer = Consumer({**settings, "group.id": client_id, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        while len(values) < len(RECORDS):
            messages = consumer.consume(100, timeout=60)
            assert messages, f"no more than {len(values)} records came"
            for message in messages:
                assert message.error() is None
                values.append(message.value() or b"")
    finally:
        consumer.close()
    assert values == RECORDS


@pytest.mark.parametrize(
    ("key", "use"), [("producer_byte_rate", produce), ("consumer_byte_rate", consume)]
)
def test_a_client_waits_as_long_as_its_quota_asks_and_others_do_not(
    broker: KafscaleProcess, key: str, use: Callable[[KafscaleProcess, str, Waits, str], None]
) -> None:
    free = Waits()
    set_quota(broker, key, RATE)
    use(broker, "free", free, "free")
    assert free.events_s == []
    limited = Waits()
    use(broker, TOPIC, limited, "limited")
    # All that goes beyond what may be used at once is waited for.
    needed_s = sum(map(len, RECORDS)) / RATE - WINDOW_S
    told_s = sum(limited.events_s)
    assert told_s > needed_s / 2, limited.events_s
    assert max(limited.longest_ms.values()) > 0, "the client's statistics show it, too"
    if use is produce:
        assert limited.sent_bytes >= sum(map(len, RECORDS))
    counted = throttles(broker)
    assert counted[series("kafscale_throttled_total", quota=key)] > 0
    assert counted[series("kafscale_throttle_seconds_total", quota=key)] > needed_s / 2


def throttles(broker: KafscaleProcess) -> dict[Any, float]:
    page = f"http://127.0.0.1:{broker.metrics_port}/metrics"
    with urllib.request.urlopen(page, timeout=30) as answer:
        return parse(answer.read())
