"""From the first record of a transaction to its answered commit, when every PUT takes 100 ms.

    python -m benchmarks.one_put [--transactions 30] [--strict]

In this room: one producer that commits transactions one after the other, with and without
`transactions.buffered`, over partitions of one log and of several. Every transaction writes one
record to each partition. Next door: the slow store (slow_store.py, slow_broker.py).
The bar: with `transactions.buffered` and one log the median is at most 1.1 PUTs.
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
BAR_MS = 1.1 * PUT_MS
_WAIT_S = 30.0
KINDS = {
    "one log": {"physical.partitions": "1"},
    "one log, buffered": {"physical.partitions": "1", "transactions.buffered": "true"},
    f"{PARTITIONS} logs": {},
    f"{PARTITIONS} logs, buffered": {"transactions.buffered": "true"},
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
    parser.add_argument("--strict", action="store_true", help="fail if the bar is missed")
    args = parser.parse_args()
    medians = {}
    with slow_files(FLUSH_MS) as bootstrap:
        for number, (name, configs) in enumerate(KINDS.items()):
            times = commit_times_ms(bootstrap, f"one-put-{number}", configs, args.transactions)
            medians[name] = statistics.median(times)
            print(f"{name:20} p50 {medians[name]:6.1f} ms  max {max(times):6.1f} ms", flush=True)
    is_missed = medians["one log, buffered"] > BAR_MS
    print(f"bar {BAR_MS:.0f} ms: {'missed' if is_missed else 'held'}")
    return 1 if is_missed and args.strict else 0


if __name__ == "__main__":
    sys.exit(main())
