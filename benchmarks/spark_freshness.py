"""How old records are when they become rows: `python -m benchmarks.spark_freshness`.

In this room: a broker and a producer of a steady rate, and behind them one runner of the pipeline
or, in a turn of its own, Spark's Kafka connector streaming into Delta with a batch as often as a
runner exports. All of it is on this machine. Printed are the ages at which records were committed
to the Delta table: the time of the commit less the record's own timestamp. Processor seconds are
those of the runner or of the connector's Spark, with all processes below.
Bar: 99 % of the records are rows within `table.freshness.ms`, at each rate.
Next door: the cost of exports by themselves (spark_tables.py), requests (spark_requests.py).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget it
    AdminClient,
    NewTopic,
)

from benchmarks.spark_all import BELOW_BAR
from benchmarks.spark_tables import peer_call
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable

TOPIC = "lines"
SCHEMA = "n bigint, note string"
VALUE_BYTES = 1000
PARTITIONS = 4
STEP_S = 0.05
KEPT_BAR = 0.99
EXPORT_AFTER = 0.75  # of the promised freshness, as the runner's planner has it


class Freshness(NamedTuple):
    """What came of one way at one rate; times in seconds."""

    mb_per_s: float  # as produced
    p50_s: float
    p99_s: float
    kept: float
    cpu_per_gb: float
    is_complete: bool


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
            while True:
                try:
                    producer.produce(TOPIC, f'{{"n":{sent},"note":"{note}"}}')
                    break
                except BufferError:  # the broker cannot keep up: this is the rate there is
                    producer.poll(0.05)
            sent += 1
        producer.poll(0)
        step += 1
    assert producer.flush(120) == 0
    return sent


def added_files(table: Path) -> Iterator[tuple[float, dict[str, Any]]]:
    """When each file with new rows was committed, and what the commit says of it."""
    for entry in sorted((table / "_delta_log").glob("*.json")):
        committed_ms = entry.stat().st_mtime * 1000
        for line in entry.read_text().splitlines():
            added = json.loads(line).get("add")
            if added and added.get("dataChange", True):
                yield committed_ms, added


def rows_in(table: Path) -> int:
    """By the statistics of the commits."""
    return sum(json.loads(added["stats"])["numRecords"] for _, added in added_files(table))


def ages_ms(table: Path, column: str) -> np.ndarray:
    """Of every row: when it was committed, less its own time."""
    found = [np.zeros(0)]
    for committed_ms, added in added_files(table):
        rows = pq.read_table(table / added["path"], columns=[column], partitioning=None)
        times = rows.column(0).cast("timestamp[us]").cast("int64").to_numpy() / 1000
        found.append(committed_ms - times)
    return np.concatenate(found)


def configs(freshness_ms: int) -> dict[str, str]:
    """What the topic declares."""
    return {
        "table.format": "delta", "table.value.format": "json", "table.value.schema": SCHEMA,
        "table.freshness.ms": str(freshness_ms),
    }  # fmt: skip


def create(bootstrap: str, freshness_ms: int) -> None:
    """The topic with its table."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = NewTopic(TOPIC, PARTITIONS, 1, config=configs(freshness_ms))
    admin.create_topics([made])[TOPIC].result(30)


@contextmanager
def runner(store: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A runner of the pipeline."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kafscale.cli.main", "pipeline", "run", "--store", store,
         "--look", "5"],
        stdout=subprocess.DEVNULL, text=True, **more,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(120)


@contextmanager
def connector(bootstrap: str, folder: Path, freshness_ms: int) -> Iterator[subprocess.Popen[str]]:
    """Spark's connector streaming into Delta; it has begun."""
    command, env = peer_call(
        bootstrap=bootstrap, folder=str(folder), mode="follow", topic=TOPIC, schema=SCHEMA,
        every_s=freshness_ms * EXPORT_AFTER / 1000,
    )  # fmt: skip
    process = subprocess.Popen(
        command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if not any(line.strip() == "ready" for line in process.stdout):
            raise Unavailable("the connector's Spark did not start")
        yield process
    finally:
        process.stdin.close()
        process.wait(120)


def measure(
    pid: int, table: Path, column: str, bootstrap: str, rate: float, given: argparse.Namespace
) -> Freshness:
    """Produce, wait until all is in the table or long overdue, and look."""
    records = produce(bootstrap, rate, given.seconds)
    deadline = time.monotonic() + 2 * given.freshness_ms / 1000 + 60
    while rows_in(table) < records and time.monotonic() < deadline:
        time.sleep(1)
    me = psutil.Process(pid)
    cpu = sum(sum(one.cpu_times()[:2]) for one in [me, *me.children(recursive=True)])
    ages = ages_ms(table, column)
    kept = float((ages <= given.freshness_ms).sum()) / records
    p50, p99 = np.percentile(ages, [50, 99]) / 1000 if len(ages) else (0.0, 0.0)
    size = records * VALUE_BYTES
    return Freshness(
        size / 1e6 / given.seconds, p50, p99, kept, cpu / size * 1e9, len(ages) == records
    )


def ours(scratch: Path, rate: float, given: argparse.Namespace) -> Freshness:
    """By a runner of the pipeline."""
    with KafscaleProcess(scratch) as broker:
        create(broker.bootstrap, given.freshness_ms)
        table = broker.data / "objects/default/@tables" / TOPIC
        with runner(str(broker.data)) as process:
            return measure(process.pid, table, "_timestamp", broker.bootstrap, rate, given)


def theirs(scratch: Path, rate: float, given: argparse.Namespace) -> Freshness:
    """By Spark's connector."""
    with KafscaleProcess(scratch) as broker:
        create(broker.bootstrap, given.freshness_ms)
        with connector(broker.bootstrap, scratch / "peer", given.freshness_ms) as process:
            table = scratch / "peer" / "table"
            return measure(process.pid, table, "timestamp", broker.bootstrap, rate, given)


def play(
    name: str,
    way: Callable[[Path, float, argparse.Namespace], Freshness],
    rate: float,
    given: argparse.Namespace,
) -> Freshness:
    """One way at one rate, in a line of the table."""
    with tempfile.TemporaryDirectory(prefix="kafscale-fresh-", ignore_cleanup_errors=True) as where:
        found = way(Path(where), rate, given)
    print(
        f"{name:28}{found.mb_per_s:8.1f}{found.p50_s:8.1f}{found.p99_s:8.1f}{found.kept:8.1%}"
        f"{found.cpu_per_gb:10.1f}{'' if found.is_complete else '  not all records are rows'}",
        flush=True,
    )
    return found


def main() -> int:
    """Print the ages; the exit code tells whether the bar was reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb-per-s", type=float, nargs="+", default=[5.0, 50.0])
    parser.add_argument("--seconds", type=float, default=240.0, help="of producing")
    parser.add_argument("--freshness-ms", type=int, default=60_000)
    parser.add_argument("--alone", action="store_true", help="without the connector")
    given = parser.parse_args()
    print(f"records of {VALUE_BYTES} bytes; promised: {given.freshness_ms / 1000:.0f} s")
    print(f"{'way':28}{'MB/s':>8}{'p50 s':>8}{'p99 s':>8}{'kept':>8}{'CPU-s/GB':>10}")
    passed = True
    for rate in given.mb_per_s:
        mine = play("ours", ours, rate, given)
        passed = passed and mine.is_complete and mine.kept >= KEPT_BAR
        if given.alone:
            continue
        try:
            other = play("Spark's connector into Delta", theirs, rate, given)
        except Unavailable as reason:
            print(f"the connector cannot be had: {reason}")
            continue
        print(
            f"at {rate:g} MB/s: {mine.p50_s / other.p50_s:.2f} of the connector's p50, "
            f"{mine.p99_s / other.p99_s:.2f} of its p99, "
            f"{mine.cpu_per_gb / other.cpu_per_gb:.2f} of its CPU"
        )
    return 0 if passed else BELOW_BAR


if __name__ == "__main__":
    sys.exit(main())
