"""What `kafscale proxy` costs beside a direct connection to the same Apache Kafka.

    python -m benchmarks.proxy [--records 200000] [--rounds 3] [--quick]

In this room: the same load with and without the proxy, in turns, so that a busy machine hurts both;
the time of one record; memory of idle virtual partitions; the time until another proxy serves.
Next door: whether all of it is right (tests/e2e/test_proxy.py).
"""

import argparse
import os
import statistics
import sys
import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.meter import cpu_s
from kafscale.proxy.coordination.members import FIRST_NODE
from tests.support.apache_kafka import ApacheKafka
from tests.support.proxy import ProxyProcess

VALUE = os.urandom(512) * 2
PARTITIONS = 10
READ_AGAIN = 5
MAPPING = {
    "topics": {
        "[a-z]+-mapped": {"virtual_partitions": 10, "physical_partitions": 2},
        "idle.*": {"virtual_partitions": 1000, "physical_partitions": 10},
    }
}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.proxy")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="only whether it runs")
    wanted = parser.parse_args()
    if wanted.quick:
        wanted.records, wanted.rounds = 2_000, 1
    with ApacheKafka() as kafka:
        first = ProxyProcess(kafka.bootstrap, MAPPING, number=1, ledger="bench")
        second = ProxyProcess(kafka.bootstrap, MAPPING, number=2, ledger="bench")
        with first:
            print(f"{wanted.records} records of {len(VALUE)} bytes; load {os.getloadavg()[0]:.1f}")
            _throughput(kafka, first, wanted.records, wanted.rounds)
            _latency(kafka, first, 50 if wanted.quick else 500)
            _memory(first)
            with second:
                _takeover(first, second)
    return 0


def _create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result()
    while topic not in admin.list_topics(timeout=30).topics:
        time.sleep(0.1)


def _throughput(kafka: ApacheKafka, proxy: ProxyProcess, count: int, rounds: int) -> None:
    ways = {
        "direct": (kafka.bootstrap, "load-direct"),
        "passed": (proxy.bootstrap, "load-passed"),
        "mapped": (proxy.bootstrap, "load-mapped"),
    }
    for bootstrap, topic in ways.values():
        _create(bootstrap, topic, PARTITIONS)
        _produce(bootstrap, topic, min(count, 1000))
    writing: dict[str, list[Round]] = {way: [] for way in ways}
    reading: dict[str, list[Round]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (bootstrap, topic) in ways.items():
            before = _spent(kafka, proxy)
            rate = _produce(bootstrap, topic, count)
            writing[way].append(Round(rate, _less(_spent(kafka, proxy), before)))
    for _ in range(READ_AGAIN * rounds):  # a turn takes half a second
        for way, (bootstrap, topic) in ways.items():
            before = _spent(kafka, proxy)
            rate = _consume(bootstrap, topic, count)
            reading[way].append(Round(rate, _less(_spent(kafka, proxy), before)))
    print(f"{'':16}{'per s':>10}{'ratio':>8}  CPU s of proxy, client, Kafka; cores kept busy")
    for name, figures in (("produce", writing), ("consume", reading)):
        direct = statistics.median(row.rate for row in figures["direct"])
        for way, rows in figures.items():
            rate = statistics.median(row.rate for row in rows)
            spent = [
                statistics.median(some) for some in zip(*(row.cpu for row in rows), strict=True)
            ]
            cores = sum(spent) * rate / count
            each = ", ".join(f"{one:.2f}" for one in spent)
            print(f"{name + ' ' + way:16}{rate:10.0f}{rate / direct:8.2f}  {each}; {cores:.1f}")


class Round(NamedTuple):
    """What was seen of one way in one round."""

    rate: float
    cpu: list[float]  # seconds of the proxy, of the client and of Kafka


def _spent(kafka: ApacheKafka, proxy: ProxyProcess) -> list[float]:
    return [cpu_s(proxy.pid), time.process_time(), cpu_s(kafka.pid)]


def _less(after: list[float], before: list[float]) -> list[float]:
    return [late - early for late, early in zip(after, before, strict=True)]


def _produce(bootstrap: str, topic: str, count: int) -> float:
    """Records per second of a producer with default settings, save a linger of 5 ms."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
    )
    failed: list[object] = []
    producer.list_topics(topic, timeout=30)
    began = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic,
                    VALUE,
                    partition=number % PARTITIONS,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0
    assert not failed, failed[:3]
    return count / (time.perf_counter() - began)


def _consume(bootstrap: str, topic: str, count: int) -> float:
    # By default this client rests for a second when it has much to hand out: that is no figure of
    # a broker.
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "fetch.queue.backoff.ms": 1}
    )
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    for place in places:
        _, high = consumer.get_watermark_offsets(place, timeout=30)
        place.offset = high - count // PARTITIONS
    consumer.assign(places)
    consumer.poll(0)
    began, got = time.perf_counter(), 0
    whole = count // PARTITIONS * PARTITIONS
    while got < whole:
        found = consumer.consume(min(10_000, whole - got), 1)
        got += sum(1 for one in found if one.error() is None)
    took = time.perf_counter() - began
    consumer.close()
    return got / took


def _latency(kafka: ApacheKafka, proxy: ProxyProcess, count: int) -> None:
    """One record at a time, in turns."""
    ways = {"direct": (kafka.bootstrap, "load-direct"), "mapped": (proxy.bootstrap, "load-mapped")}
    producers = {
        way: Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        for way, (bootstrap, _) in ways.items()
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(count):
        for way, (_, topic) in ways.items():
            began = time.perf_counter()
            producers[way].produce(topic, b"x", partition=0)
            assert producers[way].flush(60) == 0
            times[way].append((time.perf_counter() - began) * 1000)
    p50 = {way: statistics.median(rows) for way, rows in times.items()}
    direct, mapped = p50["direct"], p50["mapped"]
    more = mapped - direct
    print(f"one record, p50: direct {direct:.2f} ms, mapped {mapped:.2f} ms (+{more:.2f})")


def _memory(proxy: ProxyProcess) -> None:
    """Resident memory before and after 10,000 virtual partitions are opened by a look-up."""
    _create(proxy.bootstrap, "idle-0", 1000)
    _open_all(proxy.bootstrap, "idle-0", 1000)
    before = _resident(proxy.pid)
    for number in range(1, 11):
        _create(proxy.bootstrap, f"idle-{number}", 1000)
        _open_all(proxy.bootstrap, f"idle-{number}", 1000)
    each = (_resident(proxy.pid) - before) / 10_000
    print(f"memory of an idle virtual partition: {each:.0f} bytes")


def _open_all(bootstrap: str, topic: str, partitions: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
    times = [TopicPartition(topic, number, 1) for number in range(partitions)]
    consumer.offsets_for_times(times, timeout=120)
    consumer.close()


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def _takeover(first: ProxyProcess, second: ProxyProcess) -> None:
    """From the death of a proxy to a record at each of the partitions that it served."""
    topic = "idle-0"  # its physical partitions are many: the proxy serves some of them
    _open_all(second.bootstrap, topic, PARTITIONS)
    time.sleep(3)
    both = f"{first.bootstrap},{second.bootstrap}"
    told = AdminClient({"bootstrap.servers": both}).list_topics(topic, timeout=30)
    rows = told.topics[topic].partitions
    served = [one for one in range(PARTITIONS) if rows[one].leader == FIRST_NODE + 1]
    producer = Producer(
        {
            "bootstrap.servers": both,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 500,
            "retry.backoff.ms": 50,
        }
    )
    for partition in served:
        producer.produce(topic, b"before", partition=partition)
    producer.flush(60)
    first.kill()
    began = time.perf_counter()
    for partition in served:
        producer.produce(topic, b"after", partition=partition)
    if producer.flush(120):
        raise KafkaException("no proxy took over")
    took = time.perf_counter() - began
    print(f"killed: its {len(served)} partitions take records again after {took:.2f} s")
    first.start()


if __name__ == "__main__":
    sys.exit(main())
