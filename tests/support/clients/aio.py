"""aiokafka: asyncio, acks=1 and no idempotence by default."""

import asyncio
import importlib.metadata
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code
from aiokafka.structs import TopicPartition

from tests.support.clients.base import (
    ANSWER_WITHIN_S,
    Client,
    ClientError,
    Cluster,
    Member,
    Record,
    Stored,
)

T = TypeVar("T")


class AioKafka(Client):
    name = "aiokafka"
    title = "aiokafka"
    version = importlib.metadata.version("aiokafka")
    departures: ClassVar = {"idempotence": "`enable_idempotence=True`"}
    lacks = frozenset({"max timestamp", "records without key and value"})

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        chosen = None if codec == "none" else codec
        return _run(self._produce(topic, records, compression_type=chosen))

    def produce_idempotently(self, topic: str, records: list[Record]) -> list[int]:
        return _run(self._produce(topic, records, enable_idempotence=True))

    def consume(self, topic: str, partitions: list[int], count: int) -> list[Stored]:
        return _run(self._consume(topic, partitions, count))

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        async def commit() -> None:
            async with self._consumer(group) as consumer:
                places = {TopicPartition(topic, p): offset for p, offset in offsets.items()}
                consumer.assign(list(places))
                await consumer.commit(places)

        _run(commit())

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        async def committed() -> int | None:
            async with self._consumer(group) as consumer:
                place = TopicPartition(topic, partition)
                consumer.assign([place])
                found = await consumer.committed(place)
                return None if found is None else int(found)

        return _run(committed())

    def subscribe(self, group: str, topic: str) -> Member:
        return _AioMember(self.bootstrap, group, topic)

    def create_topic(self, topic: str, partitions: int) -> None:
        async def create() -> None:
            async with self._admin() as admin:
                new = NewTopic(topic, num_partitions=partitions, replication_factor=1)
                answer = await admin.create_topics([new])
                _check(answer.topic_errors)

        _run(create())

    def delete_topic(self, topic: str) -> None:
        async def delete() -> None:
            async with self._admin() as admin:
                answer = await admin.delete_topics([topic])
                _check(answer.topic_error_codes)

        _run(delete())

    def list_topics(self) -> dict[str, int]:
        async def topics() -> dict[str, int]:
            async with self._admin() as admin:
                found = await admin.describe_topics()
                return {topic["topic"]: len(topic["partitions"]) for topic in found}

        return _run(topics())

    def create_partitions(self, topic: str, total: int) -> None:
        async def create() -> None:
            async with self._admin() as admin:
                await admin.create_partitions({topic: NewPartitions(total)})

        _run(create())

    def alter_config(self, topic: str, operation: str, name: str, value: str | None) -> None:
        """It can only replace all settings of a topic."""
        assert operation == "SET"

        async def alter() -> None:
            async with self._admin() as admin:
                wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
                for answer in await admin.alter_configs([wanted]):
                    _check([(topic, code) for code, *_ in answer.resources])

        _run(alter())

    def earliest(self, topic: str, partition: int) -> int:
        place = TopicPartition(topic, partition)
        return int(self._ask("beginning_offsets", [place])[place])

    def latest(self, topic: str, partition: int) -> int:
        place = TopicPartition(topic, partition)
        return int(self._ask("end_offsets", [place])[place])

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = TopicPartition(topic, partition)
        found = self._ask("offsets_for_times", {place: timestamp_ms})[place]
        return None if found is None else int(found.offset)

    def cluster(self) -> Cluster:
        async def ask() -> Cluster:
            async with self._admin() as admin:
                answer = await admin.describe_cluster()
                ids = tuple(sorted(broker["node_id"] for broker in answer["brokers"]))
                return Cluster(answer["cluster_id"], answer["controller_id"], ids)

        return _run(ask())

    def begin_transaction(self, transactional_id: str) -> None:
        async def begin() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, transactional_id=transactional_id
            )
            try:
                await producer.start()
                await producer.begin_transaction()
                await producer.abort_transaction()
            finally:
                await producer.stop()

        _run(begin())

    async def _produce(self, topic: str, records: list[Record], **settings: Any) -> list[int]:
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, **settings)
        await producer.start()
        try:
            answers = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            return [(await answer).offset for answer in answers]
        finally:
            await producer.stop()

    async def _consume(self, topic: str, partitions: list[int], count: int) -> list[Stored]:
        found: list[Stored] = []
        async with self._consumer() as consumer:
            assigned = [TopicPartition(topic, p) for p in partitions]
            consumer.assign(assigned)
            await consumer.seek_to_beginning(*assigned)
            while len(found) < count:
                try:
                    message = await asyncio.wait_for(consumer.getone(), ANSWER_WITHIN_S)
                except TimeoutError:
                    break
                found.append(_stored(message))
        return found

    def _ask(self, question: str, *arguments: Any) -> Any:
        async def ask() -> Any:
            async with self._consumer() as consumer:
                return await getattr(consumer, question)(*arguments)

        return _run(ask())

    @asynccontextmanager
    async def _consumer(self, group: str | None = None) -> AsyncIterator[Any]:
        # Else it commits once more when it stops: the position it began at, over what was asked.
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()


class _AioMember(Member):
    """Its loop runs in a thread of its own, as it would in a program of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer = self._do(self._start(bootstrap, group, topic))

    async def _start(self, bootstrap: str, group: str, topic: str) -> Any:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        )
        await consumer.start()
        return consumer

    def poll(self) -> list[Stored]:
        found = self._do(self._consumer.getmany(timeout_ms=200))
        return [_stored(message) for messages in found.values() for message in messages]

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def leave(self) -> None:
        self._do(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_WITHIN_S)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_WITHIN_S)


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(asyncio.wait_for(work, 2 * ANSWER_WITHIN_S))
    except KafkaError as refused:
        raise ClientError(repr(refused)) from refused


def _check(answers: list[tuple[Any, ...]]) -> None:
    for topic, code, *_ in answers:
        if code:
            raise ClientError(f"{topic}: {for_code(code).__name__}")


def _stored(message: Any) -> Stored:
    return Stored(
        partition=message.partition,
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp_ms=message.timestamp,
    )
