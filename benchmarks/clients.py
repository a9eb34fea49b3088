"""The same client program for every broker: confluent-kafka in one process.

In this room: writing, reading and one-at-a-time latency with librdkafka's default settings.
Next door: the same work without a client library in the way (raw.py).
"""

import statistics
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import cycle
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

SETTINGS = (
    "confluent-kafka, one process, librdkafka defaults: linger.ms 5, batch.size 1,000,000, "
    "batch.num.messages 10,000, no compression, no idempotence; "
    "no commits, fetch.queue.backoff.ms 1, consume(10,000) per call"
)

# With its queue full the client pauses for a whole second, which punishes the faster broker.
EAGER = {"fetch.queue.backoff.ms": 1}
# Nothing is committed while time is taken.
NO_GROUP = {"group.id": "unused", "enable.auto.commit": False}
# Restarts of the broker are no news here.
QUIET = {"log_level": 0}


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, num_partitions=partitions)])[topic].result(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, **NO_GROUP, **QUIET})
    try:
        for partition in range(partitions):
            _wait_for_leader(consumer, TopicPartition(topic, partition))
    finally:
        consumer.close()


def produce(
    meter: AbstractContextManager[object],
    bootstrap: str,
    topic: str,
    partitions: int,
    values: Sequence[bytes],
    count: int,
    acks: str,
) -> None:
    """Write `count` records round-robin and wait until each is acknowledged.

    Their values are taken from `values` in turn. Metered from the first record to the last answer,
    connected beforehand.
    """
    errors: list[str] = []

    def failed(error: KafkaError | None, message: Message) -> None:
        errors.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            **QUIET,
            "acks": acks,
            # A Python call per delivered record would measure Python.
            "delivery.report.only.error": True,
        }
    )
    producer.list_topics(topic, timeout=30)
    with meter:
        for number, value in zip(range(count), cycle(values), strict=False):
            while True:
                try:
                    producer.produce(
                        topic, value, partition=number % partitions, on_delivery=failed
                    )
                    break
                except BufferError:
                    producer.poll(0.01)
        left = producer.flush(120)
    if left or errors:
        raise RuntimeError(f"{left} records without an answer, errors: {errors[:3]}")


def consume(
    meter: AbstractContextManager[object], bootstrap: str, topic: str, partitions: int, count: int
) -> None:
    """Read `count` records from the beginning, metered from the assignment to the last record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, **NO_GROUP, **QUIET, **EAGER})
    try:
        consumer.list_topics(topic, timeout=30)
        with meter:
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
            _drain(consumer, count)
    finally:
        consumer.close()


def _drain(consumer: Any, count: int) -> None:
    seen, last_s = 0, time.monotonic()
    while seen < count:
        messages = consumer.consume(min(10_000, count - seen), timeout=0.2)
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
        seen += len(messages)
        if messages:
            last_s = time.monotonic()
        elif time.monotonic() - last_s > 60:
            raise RuntimeError(f"only {seen} of {count} records came")


def latencies_ms(bootstrap: str, topic: str, value: bytes, count: int) -> tuple[float, float]:
    """p50 and p99 of one record at a time, acks=all, linger 0, after a tenth as warm-up."""
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET, "acks": "all", "linger.ms": 0})
    took: list[float] = []
    failed: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        took.append((time.perf_counter() - began) * 1000)
        if error is not None:
            failed.append(str(error))

    for number in range(count + count // 10):
        began = time.perf_counter()
        producer.produce(topic, value, partition=0, on_delivery=delivered)
        while len(took) == number:
            producer.poll(10)
    if failed:
        raise RuntimeError(failed[0])
    cuts = statistics.quantiles(took[-count:], n=100)
    return cuts[49], cuts[98]


def _wait_for_leader(consumer: Any, place: TopicPartition) -> None:
    for _ in range(100):
        try:
            consumer.get_watermark_offsets(place, timeout=5)
            return
        except Exception as error:
            latest = error
            time.sleep(0.1)
    raise latest
