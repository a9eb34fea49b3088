"""From the first record of a transaction to its answered commit, when every PUT takes 100 ms.

    python -m benchmarks.one_put [--transactions 30] [--quick] [--strict]

In this room: one producer that commits transactions one after the other, with and without
`transactions.buffered`, over partitions of one log and of several. Every transaction writes one
record to each partition. Next door: the slow store (slow_store.py, slow_broker.py), a fast one
beside Apache Kafka (transactions.py).
The bars, for medians: with `transactions.buffered` 1.1 PUTs, without it two and a tenth of each.
Records that wait in several logs take two PUTs (docs/decisions/0111): that bar is missed by design.
"""

import argparse
import statistics
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.slow_store import PUT_MS, slow_files

PARTITIONS = 3
FLUSH_MS = 50
_WAIT_S = 30.0
KINDS: dict[str, tuple[float, dict[str, str]]] = {  # the bar in PUTs, the topic's settings
    "one log": (2.2, {"physical.partitions": "1"}),
    "one log, buffered": (1.1, {"physical.partitions": "1", "transactions.buffered": "true"}),
    f"{PARTITIONS} logs": (2.2, {}),
    f"{PARTITIONS} logs, buffered": (1.1, {"transactions.buffered": "true"}),
}


def commit_times_ms(bootstrap: str, topic: str, configs: dict[str, str], count: int) -> list[float]:
    """How long each transaction took."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = NewTopic(topic, PARTITIONS, 1, config=configs)
    admin.create_topics([made])[topic].result(_WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(_WAIT_S)
    times = []
    for number in range(count + 3):
        producer.begin_transaction()
        began = time.perf_counter()
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=partition)
        producer.commit_transaction(_WAIT_S)
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(FLUSH_MS / 1000)  # so that no interval between flushes is waited for
    return times[3:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="five transactions")
    parser.add_argument("--strict", action="store_true", help="fail if a bar is missed")
    args = parser.parse_args()
    count = 5 if args.quick else args.transactions
    is_missed = False
    with slow_files(FLUSH_MS) as bootstrap:
        for number, (name, (puts, configs)) in enumerate(KINDS.items()):
            times = commit_times_ms(bootstrap, f"one-put-{number}", configs, count)
            median_ms, bar_ms = statistics.median(times), puts * PUT_MS
            verdict = "missed" if median_ms > bar_ms else "held"
            is_missed |= median_ms > bar_ms
            shown = f"{name:20} p50 {median_ms:6.1f} ms  max {max(times):6.1f} ms"
            print(f"{shown}  bar {bar_ms:.0f} ms: {verdict}", flush=True)
    return 1 if is_missed and args.strict else 0


if __name__ == "__main__":
    sys.exit(main())
