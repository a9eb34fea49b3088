"""A message keeps its id while its log is rewritten: by roll-up, and by key compaction."""

import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pulsar
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import watched
from tests.support.broker import KafscaleProcess
from tests.support.pulsar_client import PATIENCE_MS, connect, place, send_all

pytestmark = pytest.mark.slow

KEYS = 4
PATIENCE_S = 60.0
Place = tuple[int, int, int]


class BusyKafscaleProcess(KafscaleProcess):
    """It rewrites logs all the time."""

    settings = ("storage.housekeepingInterval=200ms", "storage.rollupObjects=5")

    def counted(self, name: str) -> float:
        """A counter of its metrics."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=20) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def fill(client: pulsar.Client, topic: str, rounds: int) -> dict[bytes, Place]:
    """Messages one by one and in batches, a flush for each; gives the ids that producers heard."""
    heard: dict[bytes, Place] = {}
    for number in range(rounds):
        producer = client.create_producer(
            topic, batching_enabled=number % 2 == 0, batching_max_publish_delay_ms=100
        )
        rows = [
            {"content": b"%d-%d" % (number, key), "partition_key": f"k{key}"} for key in range(KEYS)
        ]
        ids = map(place, send_all(producer, rows))
        heard.update({row["content"]: found for row, found in zip(rows, ids, strict=True)})
        producer.close()
    return heard


def read_all(client: pulsar.Client, topic: str) -> dict[bytes, Place]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found: dict[bytes, Place] = {}
    while reader.has_message_available():
        message = reader.read_next(PATIENCE_MS)
        found[message.data()] = place(message.message_id())
    reader.close()
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_ids_are_the_same_after_roll_ups(tmp_path: Path) -> None:
    with watched(BusyKafscaleProcess(tmp_path)) as broker:
        client = connect(broker)
        heard = fill(client, "rolled", 12)
        wait_until(lambda: broker.counted("kafscale_rollups_total") >= 1)
        assert read_all(client, "rolled") == heard
        client.close()
        broker.kill()
        broker.start()
        client = connect(broker)
        assert read_all(client, "rolled") == heard
        client.close()


def test_ids_mean_the_same_messages_after_compaction(tmp_path: Path) -> None:
    """What is left of an entry may be several, so that the offset is what stays."""
    with watched(BusyKafscaleProcess(tmp_path)) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        wish = NewTopic("compacted", 1, config=settings)
        admin.create_topics([wish])[wish.topic].result(20)
        client = connect(broker)
        heard = fill(client, "compacted", 12)
        wait_until(lambda: len(read_all(client, "compacted")) < len(heard) // 2)
        left = read_all(client, "compacted")
        assert {f"11-{key}".encode() for key in range(KEYS)} <= left.keys()
        assert {value: offset(one) for value, one in left.items()} == {
            value: offset(heard[value]) for value in left
        }
        client.close()


def offset(found: Place) -> int:
    _, entry, index = found
    return entry + max(index, 0)
