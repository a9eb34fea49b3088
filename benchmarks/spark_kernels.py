"""How fast stored batches become Arrow, without Spark: `python -m benchmarks.spark_kernels`.

In this room: one process, one core, bytes in memory handed over in chunks of 4 MiB, as the source
does it. Figures are per second of CPU of this process, the best of several runs; a gigabyte is
10^9 raw bytes. Bars: compiled >= 1.5 GB and 5 million rows, plain >= 0.3 GB.
"""

import argparse
import time
from collections.abc import Sequence

from benchmarks import orders
from kafscale.records.compression import Codec
from kafscale.spark.kernels.decoder import (
    BUFFER_BYTES,
    FIELDS,
    ObjectPiece,
    PartitionWindow,
    RecordDecoder,
)

FOUR = ("key", "value", "offset", "timestamp")
ALL = tuple(FIELDS)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=1.0, help="raw gigabytes per run")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(f"{given.gb} GB of 200-byte records in batches of 16 KB; best of {given.runs} runs")
    print(f"{'finder':10}{'codec':8}{'columns':10}{'CRC':6}{'GB/CPU-s':>9}{'Mrows/CPU-s':>13}")
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        data = b"".join(orders.batches(64_000_000, codec))
        raw = sum(1 for _ in orders.batches(64_000_000)) * len(next(iter(orders.batches(1))))
        repeats = max(1, round(given.gb * 1e9 / raw))
        for fast in (True, False):
            for columns, crc in ((FOUR, False), (FOUR, True), (ALL, True)):
                if codec is not Codec.NONE and columns is not ALL:
                    continue
                rows, seconds = best(data, columns, crc, fast, repeats, given.runs)
                print(
                    f"{'compiled' if fast else 'plain':10}{codec.name.lower():8}"
                    f"{'all' if columns is ALL else 'four':10}{'yes' if crc else 'no':6}"
                    f"{repeats * raw / seconds / 1e9:9.2f}{rows / seconds / 1e6:13.2f}"
                )


def best(
    data: bytes, columns: Sequence[str], crc: bool, fast: bool, repeats: int, runs: int
) -> tuple[int, float]:
    """Rows of one run and CPU seconds of the best."""
    decoder = RecordDecoder(columns, fast=fast, verify_crc=crc)
    rows = 0
    seconds = []
    for _ in range(runs):
        began = time.process_time()
        rows = sum(decode(decoder, data) for _ in range(repeats))
        seconds.append(time.process_time() - began)
    return rows, min(seconds)


def decode(decoder: RecordDecoder, data: bytes) -> int:
    """Read it all once."""
    view = memoryview(data)
    chunks = (view[at : at + BUFFER_BYTES] for at in range(0, len(view), BUFFER_BYTES))
    pieces = [ObjectPiece("orders", 0, chunks)]
    return sum(batch.num_rows for batch in decoder.decode(PartitionWindow("orders", 0), pieces))


if __name__ == "__main__":
    main()
