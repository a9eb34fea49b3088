"""Thousands of partitions on a few logs: throughput, memory, opening and reading, with bars.

    python -m benchmarks.lanes [--quick] [--only throughput|client|memory|reading] [--strict]

In this room: the command line, the tables, the bars.
Next door: what is measured (lane_throughput.py, lane_memory.py, lane_reads.py); PUTs per second
by number of partitions (partitions.py). Wall times of a busy machine say little: the figures to
compare are ratios within one run and CPU-seconds of the broker.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks import lane_memory, lane_reads, lane_throughput, many
from benchmarks.lane_throughput import Row, shapes
from benchmarks.run import hide_log_lines
from tests.support import seaweed

SAME = 0.10  # more of the broker's time than six ordinary partitions take, at most
BYTES_A_PARTITION = 10_000
OPEN_S = 3.0
READ_RATIO = 1.1
LAYOUTS = {"virtual": {"physical.partitions": "3"}, "shared": {"storage.placement": "shared"}}


class Scale(NamedTuple):
    """How much of everything."""

    partitions: int = 1000
    megabytes: int = 200  # less than a broker keeps of new data
    runs: int = 3
    client_megabytes: int = 200
    idle: int = 10_000
    flushes: int = 60
    stores: tuple[str, ...] = ("files", "s3")
    with_spark: bool = True


FULL = Scale()
QUICK = Scale(60, 10, 1, 10, 300, 5, ("files",), with_spark=False)


def throughput(scale: Scale) -> bool:
    print(f"\nThroughput\n{lane_throughput.SETTINGS}; {scale.megabytes} MB, {scale.runs} runs")
    return compare(lane_throughput.measure(shapes(scale.partitions), scale.megabytes, scale.runs))


def client(scale: Scale) -> bool:
    print(
        "\nThe same with confluent-kafka as it comes (batches of what came within 5 ms), "
        f"records of {lane_throughput.VALUE_BYTES} bytes round-robin"
    )
    compare(
        lane_throughput.with_a_client(shapes(scale.partitions), scale.client_megabytes),
        has_bar=False,
    )
    return False


def compare(rows: Iterable[Row], *, has_bar: bool = True) -> bool:
    """Print each beside the first of its way; whether one of the virtual ones misses the bar."""
    first: dict[str, Row] = {}
    missed = False
    print(f"{'':46} {'MB/s':>7} {'ratio':>6} {'CPU-s/GB':>9} {'ratio':>6}")
    for row in rows:
        base = first.setdefault(row.way, row)
        word = ""
        if has_bar and row.shape.logs is not None:
            is_dearer = row.cpu_s_gb > (1 + SAME) * base.cpu_s_gb
            word = "MISSED" if is_dearer else "ok"
            missed |= is_dearer
        print(
            f"{row.way:13} {row.shape.name:32} {row.mb_s:7.0f} {row.mb_s / base.mb_s:6.2f} "
            f"{row.cpu_s_gb:9.2f} {row.cpu_s_gb / base.cpu_s_gb:6.2f}  {word}",
            flush=True,
        )
    return missed


def memory(scale: Scale) -> bool:
    print(
        f"\n{scale.idle:,} partitions on one broker, each of which got one record of 100 bytes: "
        f"memory beside a broker with {lane_memory.FEW},\nand from starting the process, after a "
        "kill, to the answer to a fetch of the last partition (fastest of "
        f"{lane_memory.OPENINGS}; with {lane_memory.FEW} partitions in brackets)"
    )
    missed = False
    for store in scale.stores:
        if store == "s3" and seaweed.binary() is None:
            print("  s3: not measured, SeaweedFS is not installed")
            continue
        for name, configs in LAYOUTS.items():
            try:
                few = lane_memory.measure(lane_memory.FEW, 1, configs, store)
                lots = lane_memory.measure(scale.idle, 1, configs, store)
            except many.Refused as reason:
                print(f"  {store}, {name}: not measured, the broker refuses it ({reason})")
                continue
            each = (lots.rss_mb - few.rss_mb) * 1e6 / (scale.idle - lane_memory.FEW)
            is_missed = each > BYTES_A_PARTITION or lots.open_s > OPEN_S
            missed |= is_missed
            word = "MISSED" if is_missed else "ok"
            print(
                f"  {store}, {name}: {each:.0f} bytes a partition (<= {BYTES_A_PARTITION}), "
                f"open in {lots.open_s:.2f} s (<= {OPEN_S:g}; {few.open_s:.2f}), "
                f"{lots.open_cpu_s:.2f} CPU-s ({few.open_cpu_s:.2f})  {word}",
                flush=True,
            )
    return missed


def reading(scale: Scale) -> bool:
    print(
        f"\nReading one of {lane_reads.LANES} partitions of a log from the store, "
        f"{scale.flushes} flushes with a batch of each partition"
    )
    missed = False
    for value_bytes in (100, 1000, 16_000):
        found = lane_reads.measure(value_bytes, scale.flushes, with_spark=scale.with_spark)
        for row in found:
            is_missed = row.ratio > READ_RATIO
            missed |= is_missed
            print(
                f"  batches of {value_bytes:6} bytes, {row.when:10} {row.objects:3} objects of "
                f"{row.object_bytes / 1e6:6.2f} MB: {row.lane_bytes:7} bytes are the partition's, "
                f"{row.read_bytes:7} were read in {row.requests:3} GETs: {row.ratio:.3f} times  "
                f"{'MISSED' if is_missed else 'ok'}",
                flush=True,
            )
    return missed


PARTS = {"throughput": throughput, "client": client, "memory": memory, "reading": reading}


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.lanes")
    parser.add_argument("--quick", action="store_true", help="seconds, not minutes")
    parser.add_argument("--only", choices=PARTS, action="append", help="repeatable")
    parser.add_argument("--runs", type=int, help="of the throughput")
    parser.add_argument("--strict", action="store_true", help="fail where a bar is missed")
    options = parser.parse_args()
    hide_log_lines()
    scale = QUICK if options.quick else FULL
    if options.runs:
        scale = scale._replace(runs=options.runs)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    missed = [part for part in options.only or PARTS if PARTS[part](scale)]
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
