"""How old records are when they become rows: `python -m benchmarks.spark_freshness`.

In this room: a broker, a producer of a steady rate, one runner of the pipeline, all on this
machine, and the ages at which records were committed to the topic's Delta table: the time of the
commit less the record's own timestamp. Processor seconds are the runner's with all below it.
Bar: 99 % of the records are rows within `table.freshness.ms`.
Next door: the cost of exports (spark_tables.py).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget it
    AdminClient,
    NewTopic,
)

from benchmarks.spark_all import BELOW_BAR
from tests.support.broker import KafscaleProcess

SCHEMA = "n bigint, note string"
VALUE_BYTES = 1000
PARTITIONS = 4
STEP_S = 0.05


def produce(bootstrap: str, mb_per_s: float, seconds: float) -> int:
    """Records at a steady rate; how many."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 20,
         "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip
    noise = np.random.default_rng(1).bytes(1 << 20).hex()
    per_step = int(mb_per_s * 1e6 / VALUE_BYTES * STEP_S)
    began, sent, step = time.monotonic(), 0, 0
    while (now := time.monotonic() - began) < seconds:
        if now < step * STEP_S:
            time.sleep(step * STEP_S - now)
        for _ in range(per_step):
            at = sent * 997 % (len(noise) - VALUE_BYTES)
            note = noise[at : at + VALUE_BYTES - 30]
            producer.produce("lines", f'{{"n":{sent},"note":"{note}"}}')
            sent += 1
        producer.poll(0)
        step += 1
    assert producer.flush(120) == 0
    return sent


def ages_ms(table: Path) -> np.ndarray:
    """Of every row: when it was committed, less its own time."""
    found = [np.zeros(0)]
    for entry in sorted((table / "_delta_log").glob("*.json")):
        committed_ms = entry.stat().st_mtime * 1000
        for line in entry.read_text().splitlines():
            added = json.loads(line).get("add")
            if added and added.get("dataChange", True):
                rows = pq.read_table(table / added["path"], columns=["_timestamp"])
                times = rows.column(0).cast("int64").to_numpy() / 1000
                found.append(committed_ms - times)
    return np.concatenate(found)


def main() -> int:
    """Print the ages; the exit code tells whether the bar was reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb-per-s", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--freshness-ms", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafscale-fresh-") as scratch:
        return play(Path(scratch), given)


def play(scratch: Path, given: argparse.Namespace) -> int:
    """One run."""
    configs = {
        "table.format": "delta", "table.value.format": "json", "table.value.schema": SCHEMA,
        "table.freshness.ms": str(given.freshness_ms),
    }  # fmt: skip
    with KafscaleProcess(scratch / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("lines", PARTITIONS, 1, config=configs)])["lines"].result(30)
        runner = subprocess.Popen(
            [sys.executable, "-m", "kafscale.cli.main", "pipeline", "run",
             "--store", str(broker.data), "--look", "5"],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            records = produce(broker.bootstrap, given.mb_per_s, given.seconds)
            table = broker.data / "objects/default/@tables/lines"
            deadline = time.monotonic() + 60
            ages = ages_ms(table)
            while len(ages) < records and time.monotonic() < deadline:
                time.sleep(1)
                ages = ages_ms(table)
            me = psutil.Process(runner.pid)
            cpu = sum(sum(one.cpu_times()[:2]) for one in [me, *me.children(recursive=True)])
        finally:
            runner.terminate()
            runner.wait(60)
    kept = float((ages <= given.freshness_ms).mean()) if len(ages) else 0.0
    raw_gb = records * VALUE_BYTES / 1e9
    p50, p99 = np.percentile(ages, [50, 99]) if len(ages) else (0.0, 0.0)
    print(
        f"{records:,} records of {VALUE_BYTES} bytes, {len(ages):,} rows; promised "
        f"{given.freshness_ms / 1000:.0f} s: p50 {p50 / 1000:.1f} s, p99 {p99 / 1000:.1f} s, "
        f"{kept:.1%} kept; runner {cpu:.1f} CPU-s, {cpu / raw_gb:.0f} per GB"
    )
    return 0 if len(ages) == records and kept >= 0.99 else BELOW_BAR


if __name__ == "__main__":
    sys.exit(main())
