"""kafka-python: pure Python, idempotent by default since 3.0."""

import importlib.metadata
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.support.clients.base import (
    ANSWER_WITHIN_S,
    Client,
    ClientError,
    Cluster,
    Member,
    Record,
    Stored,
)

with warnings.catch_warnings():
    # It reads its schemas with a function the standard library is retiring.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (
        KafkaAdminClient,
        KafkaConsumer,
        KafkaProducer,
        OffsetAndMetadata,
        TopicPartition,
    )
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec
    from kafka.errors import KafkaError


class _KafkaPythonMember(Member):
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        )

    def poll(self) -> list[Stored]:
        found = self._consumer.poll(timeout_ms=200)
        return [_stored(message) for messages in found.values() for message in messages]

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def leave(self) -> None:
        self._consumer.close()


class KafkaPython(Client):
    name = "kafka-python"
    title = "kafka-python"
    version = importlib.metadata.version("kafka-python")
    lacks = frozenset({"null headers", "records without key and value"})

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        chosen = None if codec == "none" else codec
        with (
            _refusals(),
            closing(
                KafkaProducer(bootstrap_servers=self.bootstrap, compression_type=chosen)
            ) as producer,
        ):
            answers = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            return [int(answer.get(ANSWER_WITHIN_S).offset) for answer in answers]

    def consume(self, topic: str, partitions: list[int], count: int) -> list[Stored]:
        found: list[Stored] = []
        with (
            _refusals(),
            closing(
                KafkaConsumer(
                    bootstrap_servers=self.bootstrap, consumer_timeout_ms=ANSWER_WITHIN_S * 1000
                )
            ) as consumer,
        ):
            assigned = [TopicPartition(topic, p) for p in partitions]
            consumer.assign(assigned)
            consumer.seek_to_beginning(*assigned)
            while len(found) < count:
                message = next(consumer, None)
                if message is None:
                    break
                found.append(_stored(message))
        return found

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        with self._member(group) as consumer:
            places = {TopicPartition(topic, p): offset for p, offset in offsets.items()}
            consumer.assign(list(places))
            consumer.commit({at: OffsetAndMetadata(n, "", -1) for at, n in places.items()})

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        with self._member(group) as consumer:
            offset = consumer.committed(TopicPartition(topic, partition))
        return None if offset is None else int(offset)

    def subscribe(self, group: str, topic: str) -> Member:
        return _KafkaPythonMember(self.bootstrap, group, topic)

    def create_topic(self, topic: str, partitions: int) -> None:
        with self._admin() as admin:
            admin.create_topics({topic: {"num_partitions": partitions}})

    def delete_topic(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])

    def list_topics(self) -> dict[str, int]:
        with self._admin() as admin:
            return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics()}

    def create_partitions(self, topic: str, total: int) -> None:
        with self._admin() as admin:
            admin.create_partitions({topic: total})

    def configs(self, topic: str) -> dict[str, str]:
        found = self._describe(ConfigResourceType.TOPIC, topic, "modified")
        return {name: row["value"] for name, row in found.items()}

    def alter_config(self, topic: str, operation: str, name: str, value: str | None) -> None:
        self._alter(topic, {name: (AlterConfigOp[operation], value)}, incremental=True)

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        # It sends what the topic has along with what is new, so that must go first.
        gone = [name for name in self.configs(topic) if name not in configs]
        for name in gone:
            self.alter_config(topic, "DELETE", name, None)
        self._alter(topic, dict(configs), incremental=False)

    def broker_config(self, broker: int, name: str) -> str:
        found = self._describe(ConfigResourceType.BROKER, str(broker), "all")
        return str(found[name]["value"])

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition)
        with self._admin() as admin:
            return int(admin.delete_records({place: before})[place]["low_watermark"])

    def _describe(self, kind: Any, name: str, which: str) -> dict[str, Any]:
        with self._admin() as admin:
            answer = admin.describe_configs([ConfigResource(kind, name)], config_filter=which)
        return dict(answer[kind.name.lower()][name])

    def _alter(self, topic: str, configs: dict[str, Any], *, incremental: bool) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        with self._admin() as admin:
            answer = admin.alter_configs(
                [resource], raise_on_unknown=False, incremental=incremental
            )
        result = answer["topic"][topic]
        if result != "OK":
            raise ClientError(str(result))

    def earliest(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, OffsetSpec.EARLIEST)

    def latest(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, OffsetSpec.LATEST)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offset = self._offset(topic, partition, timestamp_ms)
        return None if offset < 0 else offset

    def offset_of_max_timestamp(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, OffsetSpec.MAX_TIMESTAMP)

    def cluster(self) -> Cluster:
        with self._admin() as admin:
            answer = admin.describe_cluster()
        ids = tuple(sorted(broker["broker_id"] for broker in answer["brokers"]))
        return Cluster(answer["cluster_id"], answer["controller_id"], ids)

    def begin_transaction(self, transactional_id: str) -> None:
        with (
            _refusals(),
            closing(
                KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id)
            ) as producer,
        ):
            producer.init_transactions()
            producer.begin_transaction()
            producer.abort_transaction()

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        with _refusals(), closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            yield admin

    @contextmanager
    def _member(self, group: str) -> Iterator[Any]:
        with (
            _refusals(),
            closing(KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group)) as consumer,
        ):
            yield consumer

    def _offset(self, topic: str, partition: int, spec: Any) -> int:
        place = TopicPartition(topic, partition)
        with self._admin() as admin:
            return int(admin.list_partition_offsets({place: spec})[place].offset)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as refused:
        raise ClientError(repr(refused)) from refused


def _stored(message: Any) -> Stored:
    return Stored(
        partition=message.partition,
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp_ms=message.timestamp,
    )
