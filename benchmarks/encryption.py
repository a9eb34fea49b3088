"""What TLS costs: the same bytes over a listener without it and over one with it, in turns.

    python -m benchmarks.encryption [--quick]

Prepared batches over one socket are produced to one broker, and what was just written is fetched.
Ratios are of one run: the machine is the same for both.
"""

import argparse
import ssl
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import raw, run
from benchmarks.meter import Meter
from tests.support.secured import SecuredProcess

_VALUE = bytes(range(256)) * 4
_PARTITIONS = 6
_WAYS = ("PLAINTEXT", "SSL")


class Figures(NamedTuple):
    """Of one way, once."""

    mb_per_s: float
    cpu_s_per_gb: float


def measure(broker: SecuredProcess, records: int, rounds: int) -> dict[str, list[Figures]]:
    """Both ways in turns; by what was done and the way."""
    context = ssl.create_default_context(cafile=str(broker.authority.file))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found: dict[str, list[Figures]] = {}
    for number in range(rounds):
        for way in _WAYS if number % 2 else reversed(_WAYS):
            run.show_progress(f"round {number + 1} of {rounds}: {way}")
            tls = context if way == "SSL" else None
            topic = f"{way}-{number}"
            admin.create_topics([NewTopic(topic, _PARTITIONS)])[topic].result(30)
            port, values = broker.ports[way], [_VALUE]
            meter = Meter(broker)
            sent = raw.produce(meter, port, topic, _PARTITIONS, values, records, tls)
            found.setdefault(f"produce {way}", []).append(_figures(meter, sent))
            meter = Meter(broker)
            raw.fetch(meter, port, topic, _PARTITIONS, len(_VALUE), sent, tls)
            found.setdefault(f"fetch {way}", []).append(_figures(meter, sent))
    run.show_progress("")
    return found


def _figures(meter: Meter, records: int) -> Figures:
    size = records * len(_VALUE)
    return Figures(size / 1e6 / meter.cost.wall_s, meter.cost.broker_cpu_s / (size / 1e9))


def show(found: dict[str, list[Figures]]) -> None:
    """Print a row per deed: both ways, and the ratio of the medians."""
    print("| 1 KiB, 6 partitions | PLAINTEXT | SSL | SSL / PLAINTEXT |")
    print("|---|---|---|---|")
    for deed in ("produce", "fetch"):
        for name, at in (("MB/s", 0), ("CPU-s/GB", 1)):
            plain, encrypted = (
                median(figures[at] for figures in found[f"{deed} {way}"]) for way in _WAYS
            )
            row = f"| {deed}, {name} | {plain:.2f} | {encrypted:.2f} "
            print(f"{row}| {encrypted / plain:.2f} |")


def main() -> None:
    """Parse arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with (
        tempfile.TemporaryDirectory() as folder,
        SecuredProcess(Path(folder) / "broker") as broker,
    ):
        show(measure(broker, *((20_000, 1) if quick else (300_000, 5))))


if __name__ == "__main__":
    main()
