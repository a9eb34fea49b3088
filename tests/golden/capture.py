"""Writes tests/golden/kafka anew: what real clients send.

    python -m tests.golden.capture

Here: one session per client library against a scripted broker; of every API and version the first
frame is kept, as a commented .hex file with the decoded request beside it as .json.
"""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafscale.wire.kafka import frame
from kafscale.wire.kafka.catalog import BY_KEY
from tests.fuzz.samples import plain
from tests.golden.annotate import as_text
from tests.golden.scripted import TOPIC, ScriptedBroker

FOLDER = Path(__file__).parent / "kafka"


def decoded(data: bytes) -> dict[str, Any]:
    """A frame as it is written down in .json; bytes as hex."""
    body = memoryview(data)[4:]
    asked = frame.read_request(body)
    return {
        "api": BY_KEY[asked.api_key].name,
        "version": asked.version,
        "correlation_id": asked.correlation_id,
        "client_id": asked.client_id,
        "request": _json(plain(frame.read_body(asked, body))),
    }


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_json(one) for one in value]
    return value.hex() if isinstance(value, bytes) else value


def confluent(address: str) -> None:
    from confluent_kafka import Consumer as ConfluentConsumer
    from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

    base = {"bootstrap.servers": address, "client.id": "golden"}
    for more in ({"enable.idempotence": True, "compression.type": "lz4"}, {"acks": 0}):
        producer = Producer({**base, **more})
        producer.produce(TOPIC, b"value", b"key", headers={"h": b"1"})
        producer.flush(5)
    consumer = ConfluentConsumer({**base, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    consumer.poll(6)
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 5, "note")], asynchronous=False)
    consumer.close()
    admin = AdminClient(base)
    calls: list[Callable[[], Any]] = [
        lambda: admin.create_topics([NewTopic("fresh", 3, config={"retention.ms": "1000"})]),
        lambda: admin.create_partitions([NewPartitions(TOPIC, 4)]),
        lambda: admin.delete_topics(["fresh"]),
        lambda: admin.describe_configs([ConfigResource("topic", TOPIC)]),
        lambda: admin.alter_configs([ConfigResource("topic", TOPIC, {"retention.ms": "1"})]),
        lambda: {0: admin.list_consumer_groups()},
        lambda: admin.describe_consumer_groups(["g"]),
        lambda: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")]),
        lambda: admin.delete_consumer_groups(["g"]),
    ]
    for call in calls:
        for future in call().values():
            future.exception(5)


def kafka_python(address: str) -> None:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.admin import NewTopic
    from kafka.structs import OffsetAndMetadata, TopicPartition

    producer = KafkaProducer(bootstrap_servers=address, client_id="golden", compression_type="gzip")
    producer.send(TOPIC, b"value", b"key").get(5)
    producer.close(5)
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=address, client_id="golden", group_id="g", api_version=None
    )
    consumer.poll(2000)
    consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(5, "note", -1)})
    consumer.close()
    admin = KafkaAdminClient(bootstrap_servers=address, client_id="golden")
    admin.create_topics([NewTopic("fresh", 3, 1)])
    admin.delete_topics(["fresh"])
    admin.close()


def aiokafka(address: str) -> None:
    asyncio.run(_aiokafka(address))


async def _aiokafka(address: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.structs import TopicPartition

    producer = AIOKafkaProducer(bootstrap_servers=address, client_id="golden")
    await producer.start()
    await producer.send_and_wait(TOPIC, b"value", b"key")
    await producer.stop()
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=address, client_id="golden", group_id="g")
    await consumer.start()
    await consumer.getmany(timeout_ms=1000)
    await consumer.commit({TopicPartition(TOPIC, 0): (5, "note")})
    await consumer.stop()


CLIENTS: dict[str, Callable[[str], None]] = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def session(client: Callable[[str], None]) -> dict[str, bytes]:
    """The first frame of every API and version a client sends."""
    broker = ScriptedBroker()
    try:
        client(broker.address)
        threading.Event().wait(0.2)
    finally:
        broker.close()
    kept: dict[str, bytes] = {}
    for data in broker.frames:
        what = decoded(data)
        kept.setdefault(f"{what['api']}-v{what['version']}", data)
    return kept


def main() -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, client in CLIENTS.items():
        for what, data in sorted(session(client).items()):
            path = FOLDER / f"{name}-{what}"
            path.with_name(path.name + ".hex").write_text(as_text(data, f"{what} from {name}"))
            shown = json.dumps(decoded(data), indent=2, ensure_ascii=False)
            path.with_name(path.name + ".json").write_text(shown + "\n")
            print(path.name, len(data), "bytes")


if __name__ == "__main__":
    main()
