"""What Pulsar clients get of a broker, beside Apache Pulsar with the same client and data.

    python -m benchmarks.pulsar [--quick] [--alone] [--kafka-reads] [--count N] [--rounds N]

First the conversion of messages by itself. Then both brokers, in turns, are written to and read
from by the client of PyPI (C++ below): by its defaults, which send each message by itself, and
batched. Figures are messages per second, the broker's CPU time per message, and the time of one
message that is waited for; each row is the median of some rounds. Before that, the memory of
subscriptions that wait. Last, a Kafka consumer reads what Pulsar's client and Kafka's client wrote,
in turns. `--alone` leaves Apache Pulsar out, and `--kafka-reads` everything but the last part.
"""

import argparse
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import pulsar
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.meter import Meter, rss_mb
from kafscale.gateways.pulsar.messages import splice
from kafscale.gateways.pulsar.messages.entries_in import batch_of_all, open_entry
from kafscale.gateways.pulsar.messages.entries_out import LastOpened, StoredBatch
from kafscale.gateways.pulsar.producing.plain_runs import PlainRun
from kafscale.records.batch import read_header
from kafscale.wire.pulsar.frame import sign_entry, write_command
from kafscale.wire.pulsar.messages.commands import Send
from kafscale.wire.pulsar.messages.metadata import (
    MessageMetadata,
    SingleMessageMetadata,
    single_bytes,
)
from tests.support.apache_pulsar import ApachePulsar
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.pulsar_client import connect, unique
from tests.support.pulsar_wire import RawClient

SIZES: Final = {"100 B": 100, "1 KiB": 1024}
LIMIT: Final = 1 << 30
ROUNDS: Final = 3  # of each row, unless --rounds says another number
NOW_MS: Final = 1_790_000_000_000
KINDS: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "batched": {"batching_enabled": True},
}
Broker = KafscaleProcess | ApachePulsar


# -- the conversion by itself ------------------------------------------------------------------


def show_conversion(rounds: int) -> None:
    """Print both directions."""
    if splice.__file__.endswith(".py"):
        print("the loops are not compiled here (make setup needs a C compiler)")
    for name, size in SIZES.items():
        count = 1000 if size == 100 else 100
        for kind, make in (("batched", _batched), ("one by one", _singles)):
            entries = make(count, size)
            take_in = _of_batch(*entries[0]) if kind == "batched" else _of_singles(entries)
            made = take_in()
            stored = StoredBatch(memoryview(made), read_header(made))

            def hand_out(stored: StoredBatch = stored, is_batch: bool = kind == "batched") -> None:
                if is_batch:
                    LastOpened().entry(stored, 0, stored.header.next_offset, NOW_MS)
                else:
                    LastOpened().singles(stored, 0, stored.header.next_offset, NOW_MS)

            taken, handed = (_each(work, rounds, count) for work in (take_in, hand_out))
            print(f"conversion, {kind:10} {name:>6}  in {taken:6.2f}  out {handed:6.2f} us/message")


def _batched(count: int, size: int) -> list[tuple[bytes, bytes]]:
    payload = b""
    for number in range(count):
        one = SingleMessageMetadata(
            payload_size=size, partition_key=f"key {number % 10}", sequence_id=number
        )
        payload += single_bytes(one) + bytes(size)
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=NOW_MS, num_messages_in_batch=count
    )
    return [(metadata.encode(), payload)]


def _singles(count: int, size: int) -> list[tuple[bytes, bytes]]:
    return [
        (
            MessageMetadata(
                producer_name="p",
                sequence_id=number,
                publish_time=NOW_MS,
                partition_key=f"key {number % 10}",
            ).encode(),
            bytes(size),
        )
        for number in range(count)
    ]


def _of_batch(metadata: bytes, payload: bytes) -> Callable[[], bytearray]:
    def take_in() -> bytearray:
        entry = open_entry(memoryview(metadata), memoryview(payload), LIMIT)
        return batch_of_all([entry], None)

    return take_in


def _of_singles(entries: list[tuple[bytes, bytes]]) -> Callable[[], bytearray]:
    """From frames, as they arrive: with the command and the checksum of each."""
    frames = []
    for number, entry in enumerate(entries):
        head, payload = sign_entry(*entry)
        command = Send(producer_id=1, sequence_id=number)
        whole = write_command(command, behind=len(head) + len(payload)) + head + payload
        frames.append(memoryview(bytearray(whole[4:])))

    def take_in() -> bytearray:
        run, queue = PlainRun(0), deque(frames)
        run.take(queue, 1, LIMIT, 0)
        assert not queue
        return run.batch(None)

    return take_in


def _each(work: Callable[[], object], rounds: int, count: int) -> float:
    """Microseconds of processor time per message, the best of some rounds."""
    best_s = float("inf")
    for _ in range(rounds):
        began_s = time.process_time()
        work()
        best_s = min(best_s, time.process_time() - began_s)
    return best_s / count * 1e6


# -- brokers -----------------------------------------------------------------------------------


def produce(broker: Broker, client: pulsar.Client, topic: str, size: int, count: int,
            **options: Any) -> tuple[float, float]:  # fmt: skip
    """Messages per second, and the broker's CPU microseconds per message."""
    producer = client.create_producer(topic, block_if_queue_full=True, **options)
    value, failed = bytes(size), []

    def note(result: pulsar.Result, _: object) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)

    with Meter(broker) as meter:
        for _ in range(count):
            producer.send_async(value, note)
        producer.flush()
    producer.close()
    assert not failed, failed[:3]
    return count / meter.cost.wall_s, meter.cost.broker_cpu_s / count * 1e6


def consume(broker: Broker, client: pulsar.Client, topic: str, count: int) -> tuple[float, float]:
    """The same for a consumer that acknowledges each message."""
    with Meter(broker) as meter:
        consumer = client.subscribe(
            topic, "bench", initial_position=pulsar.InitialPosition.Earliest
        )
        for _ in range(count):
            consumer.acknowledge(consumer.receive(60_000))
    consumer.close()
    return count / meter.cost.wall_s, meter.cost.broker_cpu_s / count * 1e6


def latency(client: pulsar.Client, topic: str, count: int) -> float:
    """The median of one message's milliseconds, from its sending to its receipt."""
    producer = client.create_producer(topic)
    taken = []
    for _ in range(count):
        began_s = time.perf_counter()
        producer.send(b"x" * 100)
        taken.append((time.perf_counter() - began_s) * 1000)
    producer.close()
    return statistics.median(taken)


def compare(brokers: list[Broker], count: int, rounds: int) -> None:
    """Print a row for each kind of work, the brokers taking turns."""
    clients = {broker: connect(broker) for broker in brokers}
    for broker in brokers:  # code and connections are warm then
        topic = unique("warm")
        produce(broker, clients[broker], topic, 100, count // 5)
        consume(broker, clients[broker], topic, count // 5)
    for kind, options in KINDS.items():
        for name, size in SIZES.items():
            topics = [unique("bench") for _ in range(rounds)]
            made, read = _nothing(brokers), _nothing(brokers)
            for topic in topics:
                for b in brokers:
                    made[b].append(produce(b, clients[b], topic, size, count, **options))
            show(f"produce, {kind}, {name}", made)
            for topic in topics:
                for b in brokers:
                    read[b].append(consume(b, clients[b], topic, count))
            show(f"consume, {kind}, {name}", read)
    times = {b: latency(clients[b], unique("bench"), 200) for b in brokers}
    said = "   ".join(f"{b.label} {ms:.1f} ms" for b, ms in times.items())
    print(f"{'one message, median':28} {said}")
    for client in clients.values():
        client.close()


Rounds = dict[Broker, list[tuple[float, float]]]


def _nothing(brokers: list[Broker]) -> Rounds:
    return {broker: [] for broker in brokers}


def show(what: str, figures: Rounds) -> None:
    """One row of medians, with the ratio of the first rate to the second."""
    rates, said = [], []
    for broker, rounds in figures.items():
        rate, cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
        rates.append(rate)
        said.append(f"{broker.label} {rate:8,.0f}/s {cpu:6.1f} us")
    ratio = f"   ratio {rates[0] / rates[1]:.2f}" if len(rates) > 1 else ""
    print(f"{what:28} {'   '.join(said)}{ratio}", flush=True)


def show_idle(count: int) -> None:
    """What each subscription that waits takes of the broker's memory."""
    with KafscaleProcess() as broker:
        client = RawClient.to(broker.pulsar_port)
        client.connect()
        client.subscribe_many(unique("idle"), 0, 100)
        before_mb = rss_mb(broker.pid)
        client.subscribe_many(unique("idle"), 100, count)
        taken = (rss_mb(broker.pid) - before_mb) * 1e6 / count
        client.sock.close()
    print(f"{count} idle subscriptions, memory of each {taken:,.0f} bytes")


# -- Kafka consumers of both kinds of data -------------------------------------------------------


def show_kafka_reads(broker: KafscaleProcess, count: int) -> None:
    """Print what a Kafka consumer gets of data that Pulsar's and Kafka's clients wrote."""
    client = connect(broker)
    for name, size in SIZES.items():
        topics = {kind: unique("read") for kind in ("Kafka", *KINDS)}
        _write_by_kafka(broker, topics["Kafka"], size, count)
        for kind, options in KINDS.items():
            produce(broker, client, topics[kind], size, count, **options)
        best: dict[str, tuple[float, float]] = {}
        for _ in range(ROUNDS):
            for kind, topic in topics.items():
                best[kind] = max(best.get(kind, (0.0, 0.0)), _read_by_kafka(broker, topic, count))
        for kind, (rate, cpu_us) in best.items():
            writer = "Kafka" if kind == "Kafka" else f"Pulsar, {kind}"
            print(
                f"read by Kafka, {name:>6}, written by {writer:16} {rate:>9,.0f}/s "
                f"{cpu_us:5.2f} us   ratio {rate / best['Kafka'][0]:.2f}",
                flush=True,
            )
    client.close()


def _write_by_kafka(broker: KafscaleProcess, topic: str, size: int, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": count}
    )
    for _ in range(count):
        producer.produce(topic, bytes(size))
    assert producer.flush(60) == 0


def _read_by_kafka(broker: KafscaleProcess, topic: str, count: int) -> tuple[float, float]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "bench"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    with Meter(broker) as meter:
        consumer.assign([TopicPartition(topic, 0, 0)])
        left = count
        while left:
            left -= len(consumer.consume(min(left, 10_000), 10.0))
    consumer.close()
    return count / meter.cost.wall_s, meter.cost.broker_cpu_s / count * 1e6


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(prog="benchmarks.pulsar", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without Apache Pulsar")
    parser.add_argument("--count", type=int, default=50_000, help="messages of each row")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each row")
    parser.add_argument("--kafka-reads", action="store_true", help="only Kafka's consumers")
    options = parser.parse_args()
    count = 2_000 if options.quick else options.count
    if not options.kafka_reads:
        _compare_all(options, count)
    with KafscaleProcess() as broker:
        show_kafka_reads(broker, count)


def _compare_all(options: argparse.Namespace, count: int) -> None:
    show_conversion(3 if options.quick else 20)
    show_idle(500 if options.quick else 10_000)
    with KafscaleProcess() as ours:
        if options.alone or options.quick:
            compare([ours], count, options.rounds)
            return
        try:
            other = ApachePulsar()
        except Unavailable as reason:
            print(f"Apache Pulsar: {reason}")
            compare([ours], count, options.rounds)
            return
        with other:
            compare([ours, other], count, options.rounds)


if __name__ == "__main__":
    main()
