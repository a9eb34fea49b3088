"""Committed offsets as a topic: Apache's own formatter and a plain consumer read it."""

import json
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.e2e.conftest import AGAINST, watched
from tests.e2e.test_apache_tools import jars
from tests.support.broker import KafscaleProcess
from tests.support.clients.apache_tools import CONSUMER
from tests.support.java import on_the_jvm
from tests.support.pulsar_client import connect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="the setting is Kafscale's"),
]
__all__ = ["jars"]
TOPIC = "__consumer_offsets"
LONG = f"persistent://public/__kafka/{TOPIC}"
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafscaleProcess]:
    settings = tmp_path_factory.mktemp("settings") / "broker.yaml"
    settings.write_text("consumer: {offsetsTopic: true}\n")
    with watched(KafscaleProcess(env={"KAFSCALE_CONFIG": str(settings)})) as started:
        producer = Producer({"bootstrap.servers": started.bootstrap})
        producer.produce("read", b"v")
        assert producer.flush(20) == 0
        yield started


def commit(broker: KafscaleProcess, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    row = TopicPartition("read", 0, offset, metadata="noted")
    consumer.commit(offsets=[row], asynchronous=False)
    consumer.close()


def wait_for(broker: KafscaleProcess, name: str, group: str) -> list[Any]:
    """What a plain consumer reads, up to the first record of a group."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"reads-{group}"})
    consumer.assign([TopicPartition(name, 0, 0)])
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while not any(group.encode() in one.key() for one in found):
        assert time.monotonic() < deadline, found
        found += [one for one in consumer.consume(100, 1) if one.error() is None]
    consumer.close()
    return found


@pytest.mark.parametrize("name", [TOPIC, f"public/__kafka/{TOPIC}", LONG])
def test_a_plain_consumer_reads_committed_offsets(broker: KafscaleProcess, name: str) -> None:
    group = f"group-{name.count('/')}"
    commit(broker, group, 7)
    last = wait_for(broker, name, group)[-1]
    size = len(group)
    assert last.topic() == name
    assert last.key() == struct.pack(f">hh{size}sh4si", 1, size, group.encode(), 4, b"read", 0)
    version, offset = struct.unpack_from(">hq", last.value())
    assert (version, offset) == (3, 7)
    assert b"noted" in last.value()


def documents(text: str) -> Iterator[Any]:
    """The formatter puts nothing between one record and the next."""
    while text:
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:].lstrip()


def test_apaches_formatter_reads_them(broker: KafscaleProcess, jars: str) -> None:
    commit(broker, "formatted", 5)
    count = len(wait_for(broker, TOPIC, "formatted"))
    words = ["--topic", TOPIC, "--from-beginning", "--formatter", FORMATTER]
    limits = ["--max-messages", str(count), "--timeout-ms", "60000"]
    command = on_the_jvm(jars, CONSUMER, "--bootstrap-server", broker.bootstrap, *words, *limits)
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    rows = list(documents(run.stdout.strip()))
    (row,) = (one for one in rows if one["key"]["data"]["group"] == "formatted")
    assert row["key"]["data"] == {"group": "formatted", "topic": "read", "partition": 0}
    assert row["value"]["data"]["offset"] == 5


def test_only_brokers_write_there(broker: KafscaleProcess, tmp_path: Path) -> None:
    commit(broker, "writers", 1)
    wait_for(broker, TOPIC, "writers")
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 10_000})
    producer.produce(TOPIC, b"v", b"k", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert len(errors) == 1
    assert errors[0] is not None
    with pytest.raises(pulsar.exceptions.PulsarException, match="NotAllowed"):
        connect(broker).create_producer(LONG)


def test_a_pulsar_client_reads_it(broker: KafscaleProcess) -> None:
    commit(broker, "for-pulsar", 3)
    wait_for(broker, TOPIC, "for-pulsar")
    client = connect(broker)
    reader = client.create_reader(LONG, pulsar.MessageId.earliest)
    while b"for-pulsar" not in reader.read_next(20_000).ordering_key().encode(errors="ignore"):
        pass
    client.close()
