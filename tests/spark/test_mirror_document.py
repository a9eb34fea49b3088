"""The commands of documents that need a second Kafka, run as they stand there.

From another cluster (docs/pipeline/moving.md), and from virtual partitions before an Apache Kafka
(docs/operating/proxy.md).
"""

import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from kafscale.cli.main import main
from tests.spark import kafka
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.proxy import ProxyProcess

DOCUMENTS = Path(__file__).parents[2] / "docs"


def mirror_commands(document: str, heading: str) -> list[list[str]]:
    text = (DOCUMENTS / document).read_text("utf-8")
    section = text.partition(f"\n## {heading}")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for line in block.splitlines()]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[KafscaleProcess]:
    settings = tmp_path / "kafscale.yaml"
    settings.write_text("storage:\n  housekeepingInterval: 1s\n")
    with KafscaleProcess(tmp_path, env={"KAFSCALE_CONFIG": str(settings)}) as broker:
        yield broker


@pytest.fixture
def proxy() -> Iterator[ProxyProcess]:
    """Six virtual partitions of each topic on two of an Apache Kafka."""
    try:
        apache = ApacheKafka()
    except Unavailable as reason:
        pytest.skip(f"Apache Kafka: {reason}")
    with (
        apache,
        ProxyProcess(
            apache.bootstrap, {"virtual_partitions": 6, "physical_partitions": 2}
        ) as running,
    ):
        yield running


def committed(bootstrap: str, topic: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=kafka.TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def test_a_topic_and_its_groups_are_mirrored_by_the_commands_of_the_document(
    broker: KafscaleProcess,
    target: KafscaleProcess,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = mirror_commands("pipeline/moving.md", "mirror")
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


def test_a_topic_moves_from_the_proxy_into_the_bucket_by_the_commands_of_the_document(
    proxy: ProxyProcess,
    target: KafscaleProcess,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy, groups = mirror_commands("operating/proxy.md", "Moving a topic into the bucket")
    topic = "orders"
    replaced = {
        "s3://bucket": f"file://{target.data}",
        "proxy.example:9192": proxy.bootstrap,
        "kafscale.example:9092": target.bootstrap,
    }

    def run(command: list[str]) -> None:
        words = [replaced.get(word, word) for word in command]
        monkeypatch.setattr(sys, "argv", words)
        assert main(words[1:]) == 0

    kafka.create(proxy.bootstrap, topic, 6)
    rows = [(at % 6, b"k%d" % at, b"v%d" % at) for at in range(600)]
    kafka.produce(proxy.bootstrap, topic, rows[:300])
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
    cut = TopicPartition(topic, 4, 10)
    admin.delete_records([cut])[cut].result(kafka.TIMEOUT_S)
    run(copy)
    kafka.produce(proxy.bootstrap, topic, rows[300:])
    places = [TopicPartition(topic, partition, 20 + partition) for partition in range(6)]
    billing = Consumer({"bootstrap.servers": proxy.bootstrap, "group.id": "billing"})
    billing.commit(offsets=places, asynchronous=False)
    billing.close()
    run(copy)
    run(groups)
    deadline = time.monotonic() + 120
    while [committed(target.bootstrap, topic, one) for one in range(6)] != [*range(20, 26)]:
        assert time.monotonic() < deadline, "the group did not come along"
        time.sleep(0.2)
    found = kafka.consume(target.bootstrap, topic, 6)
    assert found == kafka.consume(proxy.bootstrap, topic, 6)
    assert len(found) == 590
