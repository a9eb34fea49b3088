"""How fast Arrow rows become record batches, without Spark: `python -m benchmarks.spark_sink`.

In this room: one process, one core; choosing partitions by key and encoding batches of 1 MB, as
a task of a bulk load does it. Figures are per second of CPU of this process, the best of
several runs; a gigabyte is 10^9 encoded bytes before compression. Bar: compiled >= 0.3 GB.
"""

import argparse
import time

import numpy as np
import pyarrow as pa

from benchmarks import orders
from kafscale.records.compression import Codec
from kafscale.spark.kernels.arrays import LongArray
from kafscale.spark.sink import encode
from kafscale.spark.sink.encode import BatchEncoder, RecordRows

PARTITIONS = 8


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(f"{given.rows} records of 200 bytes, {PARTITIONS} partitions; best of {given.runs} runs")
    print(f"{'finder':10}{'codec':8}{'GB/CPU-s':>9}{'Mrows/CPU-s':>13}")
    for fast in (True, False):
        count = given.rows if fast else given.rows // 10
        records = [orders.order(number) for number in range(count)]
        key = pa.array([record.key for record in records], pa.binary())
        value = pa.array([record.value for record in records], pa.binary())
        times = np.array([record.timestamp_ms for record in records])
        raw = run(key, value, times, Codec.NONE, fast)
        for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
            seconds = []
            for _ in range(given.runs):
                began = time.process_time()
                run(key, value, times, codec, fast)
                seconds.append(time.process_time() - began)
            print(
                f"{'compiled' if fast else 'plain':10}{codec.name.lower():8}"
                f"{raw / min(seconds) / 1e9:9.2f}{count / min(seconds) / 1e6:13.2f}"
            )


def run(key: pa.Array, value: pa.Array, times: LongArray, codec: Codec, fast: bool) -> int:
    """Encode everything once; gives the bytes."""
    encoder = BatchEncoder(codec, fast=fast)
    rows = RecordRows(value, key=key, times_ms=times)
    chosen = encode.partitions_of(rows.key, PARTITIONS, fast=fast)
    order = np.argsort(chosen, kind="stable")
    bounds = np.searchsorted(chosen[order], np.arange(PARTITIONS + 1))
    return sum(
        len(encoder.encode(rows, part))
        for number in range(PARTITIONS)
        for part in encoder.cut(rows, order[bounds[number] : bounds[number + 1]])
    )


if __name__ == "__main__":
    main()
