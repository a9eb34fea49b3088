"""Clients of today that still speak as clients of old did, when told the broker is old.

In this room: kafka-python and librdkafka pinned to a release; kafka-python writes and reads all
codecs of that time, librdkafka too.
Never here: administration, which such brokers had not.
"""

import time
import warnings
from contextlib import closing
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from tests.support.clients.base import ANSWER_WITHIN_S, Client, ClientError, Record, Stored

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function the standard library is retiring.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
    from kafka import TopicPartition as Place
    from kafka.errors import KafkaError

# By release: the message format its clients write, and read at most.
RELEASES = {"0.8.2": 0, "0.9": 0, "0.10": 1}


class OldKafkaPython(Client):
    name = "kafka-python"

    def __init__(self, bootstrap: str, release: str) -> None:
        super().__init__(bootstrap)
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "api_version": tuple(map(int, release.split("."))),
        }

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        try:
            with closing(
                KafkaProducer(
                    **self._settings,
                    compression_type=None if codec == "none" else codec,
                    enable_idempotence=False,
                    linger_ms=50,
                )
            ) as producer:
                answers = [
                    producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                return [int(answer.get(ANSWER_WITHIN_S).offset) for answer in answers]
        except KafkaError as refused:
            raise ClientError(repr(refused)) from refused

    def consume(
        self, topic: str, partitions: list[int], count: int, start: int = 0, **settings: Any
    ) -> list[Stored]:
        found: list[Stored] = []
        try:
            with closing(
                KafkaConsumer(**self._settings, consumer_timeout_ms=60_000, **settings)
            ) as consumer:
                places = [Place(topic, p) for p in partitions]
                consumer.assign(places)
                for place in places:
                    consumer.seek(place, start)
                while len(found) < count:
                    message = next(consumer, None)
                    if message is None:
                        break
                    found.append(
                        Stored(
                            message.partition,
                            message.offset,
                            message.key,
                            message.value,
                            tuple(message.headers),
                            -1 if message.timestamp is None else message.timestamp,
                        )
                    )
        except KafkaError as refused:
            raise ClientError(repr(refused)) from refused
        return found

    def consume_as_member(self, topic: str, group: str, count: int) -> list[int]:
        """Offsets of the next records of a group, which are then committed."""
        with closing(
            KafkaConsumer(
                topic,
                **self._settings,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                consumer_timeout_ms=60_000,
            )
        ) as consumer:
            found = [message.offset for message, _ in zip(consumer, range(count), strict=False)]
            consumer.commit({Place(topic, 0): OffsetAndMetadata(found[-1] + 1, "", -1)})
        return found


class OldConfluent(Client):
    name = "confluent"

    def __init__(self, bootstrap: str, release: str) -> None:
        super().__init__(bootstrap)
        full = {"0.8.2": "0.8.2.1", "0.9": "0.9.0", "0.10": "0.10.0.0"}[release]
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "api.version.request": False,
            "broker.version.fallback": full,
            "log_level": 0,  # it warns that such brokers are old
        }

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        producer = Producer({**self._settings, "compression.type": codec, "linger.ms": 50})
        offsets = [-1] * len(records)
        errors: list[str] = []

        def delivered(place: int) -> Any:
            def note(error: Any, message: Any) -> None:
                if error is not None:
                    errors.append(str(error))
                else:
                    offsets[place] = message.offset()

            return note

        for place, record in enumerate(records):
            producer.produce(
                topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=delivered(place),
                timestamp=record.timestamp_ms or 0,
            )
        left = producer.flush(ANSWER_WITHIN_S)
        if left or errors:
            raise ClientError(f"{left} without an answer; {errors[:3]}")
        return offsets

    def consume(
        self, topic: str, partitions: list[int], count: int, start: int = OFFSET_BEGINNING
    ) -> list[Stored]:
        consumer = Consumer({**self._settings, "group.id": "old", "enable.auto.commit": False})
        found: list[Stored] = []
        deadline = time.monotonic() + 60
        try:
            consumer.assign([TopicPartition(topic, p, start) for p in partitions])
            while len(found) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(found), timeout=1.0):
                    if message.error() is not None:
                        raise ClientError(str(message.error()))
                    found.append(
                        Stored(
                            message.partition() or 0,
                            message.offset() or 0,
                            message.key(),
                            message.value(),
                            (),
                            message.timestamp()[1] if message.timestamp()[0] else -1,
                        )
                    )
        except KafkaException as refused:
            raise ClientError(str(refused)) from refused
        finally:
            consumer.close()
        return found


OLD_CLIENTS = {client.name: client for client in (OldKafkaPython, OldConfluent)}
