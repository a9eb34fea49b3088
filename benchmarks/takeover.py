"""How long partitions are without a leader when a broker leaves or is killed.

    python -m benchmarks.takeover [--partitions 2000] [--store files|s3] [--lease 3] [--quick]

In this room: two brokers on a real etcd that share partitions with records in each, the moments
when the survivor hears of it and has opened all of them, what that costs in processor time and
requests (which a busy machine does not change), and producers with default settings: one that
wants some of the partitions at once, one that writes to all of them afterwards.
Next door: the same under load, with every promise checked (tests/e2e/test_fleet.py).
"""

import argparse
import json
import os
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.meter import cpu_s
from tests.support.broker import KafscaleProcess
from tests.support.etcd import EtcdCluster
from tests.support.program import Program
from tests.support.seaweed import SeaweedServer

MOST_PER_TOPIC = 1000
IMPATIENT = 50
REQUESTS = re.compile(rb'^kafscale_s3_requests_total\{.*operation="(\w+)".*\} (\S+)$', re.MULTILINE)

Others = dict[str, Program]  # whose processor time counts, too


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.takeover")
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--store", choices=("files", "s3"), default="s3")
    parser.add_argument("--lease", type=int, default=3, help="seconds")
    parser.add_argument("--quick", action="store_true", help="100 partitions on files")
    wanted = parser.parse_args()
    if wanted.quick:
        wanted.partitions, wanted.store = 100, "files"
    with tempfile.TemporaryDirectory(prefix="takeover-") as folder, ExitStack() as undo:
        env = {"KAFSCALE_ETCD_LEASE_TTL": f"{wanted.lease}s"}
        etcd = undo.enter_context(EtcdCluster())
        env["KAFSCALE_ETCD_ENDPOINTS"] = etcd.endpoints[0]
        others: Others = {"etcd": etcd.members[0]}
        if wanted.store == "s3":
            server = undo.enter_context(SeaweedServer())
            env |= server.broker_environment("takeover")
            others["SeaweedFS"] = server
        print(f"store: {wanted.store}; lease: {wanted.lease} s; load: {os.getloadavg()[0]:.1f}")
        for way in ("leaves", "is killed"):
            with _two_brokers(Path(folder), env) as brokers:
                _measure(brokers, way, wanted.partitions, wanted.lease, others)
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
    brokers: list[KafscaleProcess], way: str, partitions: int, lease_s: int, others: Others
) -> None:
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = {
        f"many-{first // MOST_PER_TOPIC}": min(MOST_PER_TOPIC, partitions - first)
        for first in range(0, partitions, MOST_PER_TOPIC)
    }
    for topic, count in topics.items():
        if topic not in admin.list_topics(timeout=30).topics:
            admin.create_topics([NewTopic(topic, count)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    _await_shares(admin, topics)
    _write_everywhere(producer, topics)
    listed = admin.list_topics(timeout=30).topics
    lost = [
        (name, partition.id)
        for name in topics
        for partition in listed[name].partitions.values()
        if partition.leader == 1
    ]
    wanted_now = random.Random(0).sample(lost, min(IMPATIENT, len(lost)))
    calm_s = _write_everywhere(producer, topics)
    survivor = brokers[0]
    requests = _requests(survivor)
    meters = {**others, "survivor": survivor}
    said = survivor.output.stat().st_size
    cpu = {name: cpu_s(one.pid) for name, one in meters.items()}
    began_s = time.time()
    brokers[1].stop() if way == "leaves" else brokers[1].kill()
    with _impatient(bootstrap, wanted_now) as acknowledged:
        moments = _until_open(survivor, said, partitions)
    spent = {name: cpu_s(one.pid) - cpu[name] for name, one in meters.items()}
    asked = {kind: count - requests.get(kind, 0) for kind, count in _requests(survivor).items()}
    sent_s = time.time() - began_s
    written_s = _write_everywhere(producer, topics)
    heard_s, open_s = (moment - began_s for moment in moments)
    beyond = "" if way == "leaves" else f" ({open_s - lease_s:+.2f} s from the lease)"
    waits = sorted(moment - began_s for moment in acknowledged)
    print(
        f"a broker with {len(lost)} of {partitions} partitions {way}: news after {heard_s:.2f} s, "
        f"all open elsewhere after {open_s:.2f} s{beyond}\n"
        f"  CPU seconds: {_listed(spent, '.2f')}; requests per partition: "
        f"{_listed({kind: n / len(lost) for kind, n in asked.items() if n}, '.2f')}\n"
        f"  records for {len(wanted_now)} of them, sent when it went: acknowledged after "
        f"{statistics.median(waits):.2f} s (median), {waits[-1]:.2f} s (last)\n"
        f"  a record for each of all, sent after {sent_s:.2f} s, took {written_s:.2f} s, "
        f"before {calm_s:.2f} s",
        flush=True,
    )


def _await_shares(admin: AdminClient, topics: dict[str, int]) -> None:
    """Wait until both brokers have their share: one that joins gets it a moment later."""
    leaders: set[int] = set()
    while leaders != {0, 1}:
        listed = admin.list_topics(timeout=30).topics
        rows = [row for name in topics for row in listed[name].partitions.values()]
        leaders = {row.leader for row in rows}
        time.sleep(0.05)


@contextmanager
def _impatient(bootstrap: str, places: list[tuple[str, int]]) -> Iterator[list[float]]:
    """A producer that writes to some partitions now; gives when each was acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    acknowledged: list[float] = []

    def delivered(error: object, _: object) -> None:
        assert error is None, error
        acknowledged.append(time.time())

    for topic, number in places:
        producer.produce(topic, b"x", partition=number, on_delivery=delivered)
    waiting = threading.Thread(target=producer.flush, args=(60,))
    waiting.start()
    yield acknowledged
    waiting.join()


def _listed(figures: dict[str, float], form: str) -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in figures.items())


def _until_open(broker: KafscaleProcess, said: int, count: int) -> tuple[float, float]:
    """When the survivor heard of it and when it had opened all logs, by what it wrote.

    Its metrics are asked for once, at the end: a page about thousands of partitions is work for
    the one who opens them.
    """
    while True:
        with broker.output.open("rb") as output:
            output.seek(said)
            lines = [json.loads(line) for line in output if line.startswith(b"{")]
        at = {line["event"]: _seconds(line["timestamp"]) for line in lines}
        if "logs_opened" in at and _owned(broker) == count:
            return at["members_changed"], at["logs_opened"]
        time.sleep(0.05)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _page(broker: KafscaleProcess) -> bytes:
    with urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=30) as page:
        return bytes(page.read())


def _owned(broker: KafscaleProcess) -> int:
    found = re.search(rb"^kafscale_logs_owned (\d+)", _page(broker), re.MULTILINE)
    return int(found[1]) if found else 0


def _requests(broker: KafscaleProcess) -> Counter[str]:
    """Requests to the store so far, by kind."""
    counts: Counter[str] = Counter()
    for kind, count in REQUESTS.findall(_page(broker)):
        counts[kind.decode()] += int(float(count))
    return counts


def _write_everywhere(producer: Producer, topics: dict[str, int]) -> float:
    began = time.monotonic()
    failed: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error:
            failed.append(str(error))

    for topic, count in topics.items():
        for number in range(count):
            producer.produce(topic, b"x", partition=number, on_delivery=delivered)
    assert producer.flush(120) == 0, "not all was written"
    assert not failed, failed[:3]
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
