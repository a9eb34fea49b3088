"""Topics made and read the ordinary way: by a Kafka client at the broker."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.support import second_try

TIMEOUT_S = 120


class Row(NamedTuple):
    """A record as both sides show it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def create(bootstrap: str, topic: str, partitions: int = 1, **given: str) -> None:
    configs = {"retention.ms": "-1"} | {
        name.replace("_", "."): value for name, value in given.items()
    }  # our records are years old
    admin = AdminClient({"bootstrap.servers": bootstrap})
    second_try.forget_topic(admin, topic, TIMEOUT_S)
    made = admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])
    made[topic].result(TIMEOUT_S)


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[int, bytes | None, bytes | None]],
    *,
    codec: str = "none",
    headers: Sequence[tuple[str, bytes | None]] = (),
    start_ms: int = 1_700_000_000_000,
    **settings: Any,
) -> None:
    """Send (partition, key, value), the n-th at `start_ms` + n milliseconds, and wait for all."""
    failed: list[Any] = []

    def landed(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, **settings}
    )
    for number, (partition, key, value) in enumerate(records):
        producer.produce(
            topic,
            value,
            key,
            partition,
            timestamp=start_ms + number,
            headers=list(headers),
            on_delivery=landed,
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed, failed[:3]


def consume(bootstrap: str, topic: str, partitions: int) -> list[Row]:
    """Every record of a topic, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "spark-tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        places = [TopicPartition(topic, number, 0) for number in range(partitions)]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place, TIMEOUT_S)[0]
        consumer.assign(places)
        rows: list[Row] = []
        open_ends = set(range(partitions))
        while open_ends:
            for message in consumer.consume(1000, 0.2):
                if (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:  # others pass: it asks again
                        open_ends.discard(message.partition())
                    continue
                kind, time_ms = message.timestamp()
                rows.append(
                    Row(
                        topic,
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        time_ms,
                        kind - 1,  # librdkafka counts from 1
                        tuple(message.headers() or ()),
                    )
                )
        return sorted(rows)
    finally:
        consumer.close()


def delete_before(bootstrap: str, topic: str, partition: int, offset: int) -> None:
    """Move the log start."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        done.result(TIMEOUT_S)


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    """Add partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_S)
