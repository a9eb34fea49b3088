"""How long partitions are without a leader when a broker leaves or is killed.

    python -m benchmarks.takeover [--partitions 2000] [--store files|s3] [--lease 3]

In this room: two brokers on a real etcd that share partitions with records in each, the moment
when the survivor has opened all of them, and a producer with default settings.
Next door: the same under load, with every promise checked (tests/e2e/test_fleet.py).
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker import KafscaleProcess
from tests.support.etcd import EtcdCluster
from tests.support.seaweed import SeaweedServer

PER_TOPIC = 1000


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--store", choices=("files", "s3"), default="s3")
    parser.add_argument("--lease", type=int, default=3, help="seconds")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="takeover-") as folder, ExitStack() as undo:
        env = {"KAFSCALE_ETCD_LEASE_TTL": f"{wanted.lease}s"}
        env["KAFSCALE_ETCD_ENDPOINTS"] = undo.enter_context(EtcdCluster()).endpoints[0]
        if wanted.store == "s3":
            env |= undo.enter_context(SeaweedServer()).broker_environment("takeover")
        for way in ("leaves", "is killed"):
            with _two_brokers(Path(folder), env) as brokers:
                _measure(brokers, way, wanted.partitions, wanted.lease, wanted.store)
    return 0


@contextmanager
def _two_brokers(folder: Path, env: dict[str, str]) -> Iterator[list[KafscaleProcess]]:
    brokers = [
        KafscaleProcess(
            folder / str(number),
            {**env, "KAFSCALE_BROKER_ID": str(number), "KAFSCALE_DATA_DIR": str(folder / "data")},
        )
        for number in range(2)
    ]
    with ExitStack() as undo:
        for broker in brokers:
            undo.enter_context(broker)
        yield brokers


def _measure(
    brokers: list[KafscaleProcess], way: str, partitions: int, lease_s: int, store: str
) -> None:
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [f"many-{number}" for number in range(-(-partitions // PER_TOPIC))]
    for topic in topics:
        if topic not in admin.list_topics(timeout=30).topics:
            admin.create_topics([NewTopic(topic, PER_TOPIC)])[topic].result(60)
    partitions = PER_TOPIC * len(topics)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    _write_everywhere(producer, topics)
    found = admin.list_topics(timeout=30).topics
    had = sum(row.leader == 1 for name in topics for row in found[name].partitions.values())
    calm_s = _write_everywhere(producer, topics)
    began = time.monotonic()
    if way == "leaves":
        brokers[1].stop()
        gone_s = time.monotonic() - began
    else:
        brokers[1].kill()
        gone_s = 0.0
    open_s = _until_open(brokers[0], partitions, began)
    began_s = time.monotonic() - began
    written_s = _write_everywhere(producer, topics)
    beyond = f" ({open_s - lease_s:+.2f} s from the lease of {lease_s} s)" if not gone_s else ""
    print(
        f"{store}: a broker with {had} of {partitions} partitions {way}: all open elsewhere after "
        f"{open_s:.2f} s{beyond}; a record for each, sent after {began_s:.2f} s, took "
        f"{written_s:.2f} s, before {calm_s:.2f} s"
    )


def _until_open(broker: KafscaleProcess, count: int, began: float) -> float:
    """Ask the survivor until it has opened all logs."""
    while True:
        with urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=30) as page:
            found = re.search(rb"^kafscale_logs_owned (\d+)", page.read(), re.MULTILINE)
        if found and int(found[1]) == count:
            return time.monotonic() - began
        time.sleep(0.1)  # a page about thousands of partitions is work for the one who opens them


def _write_everywhere(producer: Producer, topics: list[str]) -> float:
    began = time.monotonic()
    failed: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error:
            failed.append(str(error))

    for topic in topics:
        for number in range(PER_TOPIC):
            producer.produce(topic, b"x", partition=number, on_delivery=delivered)
    assert producer.flush(120) == 0, "not all was written"
    assert not failed, failed[:3]
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
