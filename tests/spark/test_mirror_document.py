"""The commands of docs/pipeline/moving.md that need a second Kafka, run as they stand there."""

import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from kafscale.cli.main import main
from tests.spark import kafka
from tests.support.broker import KafscaleProcess

DOCUMENT = Path(__file__).parents[2] / "docs/pipeline/moving.md"


def mirror_commands() -> list[list[str]]:
    section = DOCUMENT.read_text("utf-8").partition("\n## mirror")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for line in block.splitlines()]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[KafscaleProcess]:
    settings = tmp_path / "kafscale.yaml"
    settings.write_text("storage:\n  housekeepingInterval: 1s\n")
    with KafscaleProcess(tmp_path, env={"KAFSCALE_CONFIG": str(settings)}) as broker:
        yield broker


def committed(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=kafka.TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def test_a_topic_and_its_groups_are_mirrored_by_the_commands_of_the_document(
    broker: KafscaleProcess,
    target: KafscaleProcess,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = mirror_commands()
    assert [words[:3] for words in commands] == [["kafscale", "pipeline", "mirror"]] * 2
    topic = "mirrored"
    kafka.create(broker.bootstrap, topic, 1)
    kafka.produce(broker.bootstrap, topic, [(0, b"k%d" % n, b"v%d" % n) for n in range(100)])
    billing = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
    billing.commit(offsets=[TopicPartition(topic, 0, 60)], asynchronous=False)
    billing.close()
    replaced = {
        "s3://bucket": f"file://{target.data}",
        "kafka.example:9092": broker.bootstrap,
        "kafscale.example:9092": target.bootstrap,
        "orders": topic,
    }
    for command in commands:
        words = [replaced.get(word, word) for word in command]
        monkeypatch.setattr(sys, "argv", words)  # which job's arguments there are depends on it
        assert main(words[1:]) == 0
    deadline = time.monotonic() + 120
    while committed(target.bootstrap, topic) != 60:
        assert time.monotonic() < deadline, "the group did not come along"
        time.sleep(0.2)
    assert kafka.consume(target.bootstrap, topic, 1) == kafka.consume(broker.bootstrap, topic, 1)
