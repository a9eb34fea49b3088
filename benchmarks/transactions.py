"""Transactions per second and their latency, beside Apache Kafka on files.

    python -m benchmarks.transactions [--quick] [--no-kafka]

In this room: producers that commit one transaction after the other, a thread each. A transaction
has one record for every partition of the topic. Its time is that from the first record to the
answered commit; the commit's own time begins when all records are acknowledged.
Next door: the same with a slow store (one_put.py), other workloads (compare.py).
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clients import QUIET
from benchmarks.meter import Meter
from benchmarks.run import show_progress
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.process import BrokerProcess

_WAIT_S = 60.0
_WARM_UP = 3  # transactions of each producer
_LEAST = 2  # as well
_VALUE = bytes(100)


class Work(NamedTuple):
    """What is measured at a time."""

    partitions: int
    logs: int  # that the partitions lie in; of Apache Kafka every partition is one
    producers: int

    def __str__(self) -> str:
        return f"{self.partitions:,} partitions in {self.logs} logs, {self.producers} producers"


WORK = [
    Work(partitions, logs, producers)
    for producers in (1, 64)
    for partitions in (1, 10, 1000)
    for logs in (1, 3)
    if logs <= partitions
]


class Took(NamedTuple):
    """One transaction."""

    whole_ms: float
    commit_ms: float


class Figures(NamedTuple):
    """One work on one broker."""

    per_s: float
    took: list[Took]
    cpu_ms: float  # of the broker, for a transaction

    def cells(self) -> Iterator[str]:
        yield f"{self.per_s:,.1f}"
        for times in ([one.whole_ms for one in self.took], [one.commit_ms for one in self.took]):
            cuts = statistics.quantiles(times, n=100, method="inclusive")
            yield f"{cuts[49]:,.1f}"
            yield f"{cuts[98]:,.1f}"
        yield f"{self.cpu_ms:,.2f}"


COLUMNS = ("1/s", "p50 ms", "p99 ms", "commit p50 ms", "commit p99 ms", "broker CPU-ms each")


class _Client(threading.Thread):
    """A producer with a transactional id."""

    def __init__(self, bootstrap: str, topic: str, work: Work, number: int) -> None:
        super().__init__(daemon=True)
        self._topic, self._partitions = topic, work.partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"{topic}-{number}",
                "linger.ms": 0,
                **QUIET,
            }
        )
        self._begins = threading.Event()
        self._until_s = 0.0
        self.took: list[Took] = []
        self.problem: Exception | None = None

    def warm_up(self) -> None:
        self._producer.init_transactions(_WAIT_S)
        for _ in range(_WARM_UP):
            self._transaction()

    def go(self, until_s: float) -> None:
        self._until_s = until_s
        self._begins.set()

    def run(self) -> None:
        self._begins.wait()
        try:
            while time.perf_counter() < self._until_s or len(self.took) < _LEAST:
                self.took.append(self._transaction())
        except Exception as problem:  # the main thread raises it
            self.problem = problem

    def _transaction(self) -> Took:
        began_s = time.perf_counter()
        self._producer.begin_transaction()
        for partition in range(self._partitions):
            self._producer.produce(self._topic, _VALUE, partition=partition)
        self._producer.flush(_WAIT_S)
        written_s = time.perf_counter()
        self._producer.commit_transaction(_WAIT_S)
        ended_s = time.perf_counter()
        return Took((ended_s - began_s) * 1000, (ended_s - written_s) * 1000)


def measure(broker: BrokerProcess, work: Work, seconds: float) -> Figures:
    """Let all producers work for so long; each makes two transactions at least."""
    topic = f"transactions-{work.partitions}-{work.logs}-{work.producers}"
    is_ours = isinstance(broker, KafscaleProcess)
    configs = {"physical.partitions": str(work.logs)} if is_ours else {}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
    made = NewTopic(topic, work.partitions, 1, config=configs)
    admin.create_topics([made])[topic].result(_WAIT_S)
    clients = [_Client(broker.bootstrap, topic, work, n) for n in range(work.producers)]
    for client in clients:
        client.warm_up()
        client.start()
    with Meter(broker) as meter:
        for client in clients:
            client.go(time.perf_counter() + seconds)
        for client in clients:
            client.join()
    if problems := [client.problem for client in clients if client.problem is not None]:
        raise problems[0]
    took = [one for client in clients for one in client.took]
    cost = meter.cost
    return Figures(len(took) / cost.wall_s, took, 1000 * cost.broker_cpu_s / len(took))


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.transactions")
    parser.add_argument("--quick", action="store_true", help="few producers, a second each")
    parser.add_argument("--no-kafka", action="store_true", help="without Apache Kafka")
    options = parser.parse_args()
    seconds = 1.0 if options.quick else 10.0
    makers: list[Callable[[], BrokerProcess]] = [KafscaleProcess]
    if not options.no_kafka:
        makers.append(ApacheKafka)
    print("transactions: confluent-kafka, linger.ms 0, one record of 100 B for each partition;")
    print(f"files, default settings, {seconds:.0f} s each, producers are threads of one process\n")
    print("| work | broker | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|", flush=True)
    for make in makers:
        try:
            broker = make()
        except Unavailable as reason:
            print(f"Apache Kafka is left out: {reason}", file=sys.stderr)
            continue
        _measure_all(broker, seconds, is_quick=options.quick)
    show_progress("")
    return 0


def _measure_all(broker: BrokerProcess, seconds: float, *, is_quick: bool) -> None:
    with broker:
        for work in WORK:
            if not isinstance(broker, KafscaleProcess) and work.logs > 1:
                continue  # its partitions do not share logs
            few = work._replace(producers=min(work.producers, 4)) if is_quick else work
            show_progress(f"{broker.label}: {few}")
            cells = measure(broker, few, seconds).cells()
            print(f"| {few} | {broker.label} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
