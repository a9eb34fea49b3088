"""confluent-kafka: librdkafka under Python."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support import second_try
from tests.support.clients.base import (
    ANSWER_WITHIN_S,
    Client,
    ClientError,
    Cluster,
    Member,
    Record,
    Stored,
)

# Its consumer wants a group name even to read assigned partitions, and commits to that group.
GROUP = {"group.id": "readers"}


class Confluent(Client):
    name = "confluent"
    title = "confluent-kafka"
    version = confluent_kafka.__version__
    departures: ClassVar = {"idempotence": "`enable.idempotence=true`"}

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        # Kept: its futures are cancelled when the client is collected.
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        return self._produce(topic, records, {"compression.type": codec})

    def produce_idempotently(self, topic: str, records: list[Record]) -> list[int]:
        return self._produce(topic, records, {"enable.idempotence": True})

    def _produce(self, topic: str, records: list[Record], settings: dict[str, Any]) -> list[int]:
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        offsets: list[int] = [-1] * len(records)
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
                key=record.key,
                value=record.value,
                partition=record.partition,
                headers=list(record.headers),
                timestamp=record.timestamp_ms or 0,
                on_delivery=delivered(place),
            )
            producer.poll(0)
        left = producer.flush(ANSWER_WITHIN_S)
        if errors or left:
            raise ClientError(f"{len(errors)} failed ({errors[:1]}), {left} without an answer")
        return offsets

    def consume(self, topic: str, partitions: list[int], count: int) -> list[Stored]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **GROUP})
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        found: list[Stored] = []
        deadline = time.monotonic() + ANSWER_WITHIN_S
        try:
            while len(found) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(found), timeout=0.5):
                    if message.error() is not None:
                        raise ClientError(str(message.error()))
                    found.append(_stored(message))
        finally:
            consumer.close()
        return found

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        places = [TopicPartition(topic, *place) for place in offsets.items()]
        with self._consumer(group) as consumer:
            for place in consumer.commit(offsets=places, asynchronous=False):
                if place.error is not None:
                    raise ClientError(str(place.error))

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        with self._consumer(group) as consumer:
            (place,) = consumer.committed([TopicPartition(topic, partition)], ANSWER_WITHIN_S)
        if place.error is not None:
            raise ClientError(str(place.error))
        return None if place.offset < 0 else int(place.offset)

    def subscribe(self, group: str, topic: str) -> Member:
        return ConfluentMember(self.bootstrap, group, topic)

    def shares(self, group: str) -> list[int]:
        """How many partitions each member of a settled group has; nothing of an unsettled one."""
        found = _done(self._admin.describe_consumer_groups([group])[group])
        if found.state != ConsumerGroupState.STABLE:
            return []
        return sorted(len(member.assignment.topic_partitions) for member in found.members)

    def create_topic(self, topic: str, partitions: int) -> None:
        new = NewTopic(topic, num_partitions=partitions)
        second_try.forget_topic(self._admin, topic, ANSWER_WITHIN_S)
        _done(self._admin.create_topics([new])[topic])

    def delete_topic(self, topic: str) -> None:
        _done(self._admin.delete_topics([topic])[topic])

    def list_topics(self) -> dict[str, int]:
        topics = self._admin.list_topics(timeout=ANSWER_WITHIN_S).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def create_partitions(self, topic: str, total: int) -> None:
        _done(self._admin.create_partitions([NewPartitions(topic, total)])[topic])

    def configs(self, topic: str) -> dict[str, str]:
        return {
            name: entry.value
            for name, entry in self._describe(ResourceType.TOPIC, topic).items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }

    def alter_config(self, topic: str, operation: str, name: str, value: str | None) -> None:
        kind = AlterConfigOpType[operation]
        entry = ConfigEntry(name, value, incremental_operation=kind)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        _done(self._admin.incremental_alter_configs([resource])[resource])

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=configs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # as AlterConfigs itself is
            answer = self._admin.alter_configs([resource])
        _done(answer[resource])

    def broker_config(self, broker: int, name: str) -> str:
        return str(self._describe(ResourceType.BROKER, str(broker))[name].value)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition, before)
        return int(_done(self._admin.delete_records([place])[place]).low_watermark)

    def _describe(self, kind: ResourceType, name: str) -> dict[str, Any]:
        resource = ConfigResource(kind, name)
        found: dict[str, Any] = _done(self._admin.describe_configs([resource])[resource])
        return found

    def earliest(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, OffsetSpec.earliest())

    def latest(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, OffsetSpec.latest())

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offset = self._offset(topic, partition, OffsetSpec.for_timestamp(timestamp_ms))
        return None if offset < 0 else offset

    def offset_of_max_timestamp(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, OffsetSpec.max_timestamp())

    def cluster(self) -> Cluster:
        answer = _done(self._admin.describe_cluster())
        ids = tuple(sorted(node.id for node in answer.nodes))
        return Cluster(answer.cluster_id, answer.controller.id, ids)

    def begin_transaction(self, transactional_id: str) -> None:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id}
        )
        try:
            producer.init_transactions(ANSWER_WITHIN_S)
            producer.begin_transaction()
        except KafkaException as refused:
            raise ClientError(f"{refused.args[0].name()}: {refused.args[0].str()}") from refused

    @contextmanager
    def _consumer(self, group: str) -> Iterator[Any]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            yield consumer
        except KafkaException as refused:
            raise ClientError(str(refused)) from refused
        finally:
            consumer.close()

    def _offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        place = TopicPartition(topic, partition)
        return int(_done(self._admin.list_offsets({place: spec})[place]).offset)


class ConfluentMember(Member):
    """With settings beyond the default ones where a test is about them."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: object) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[Stored]:
        found = self._consumer.consume(500, timeout=0.2)
        # Troubles of a connection are told as messages; the client goes on by itself.
        return [_stored(message) for message in found if message.error() is None]

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def leave(self) -> None:
        self._consumer.close()


def _done(future: Any) -> Any:
    try:
        return future.result(ANSWER_WITHIN_S)
    except KafkaException as refused:
        raise ClientError(str(refused)) from refused


def _stored(message: Any) -> Stored:
    return Stored(
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp_ms=message.timestamp()[1],
    )
