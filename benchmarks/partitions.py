"""What a partition costs: PUTs per second by number of partitions and by how they are laid out.

    python -m benchmarks.partitions [--counts 10,100,1000,10000] [--seconds 6] [--quick]

Three broker processes on etcd share one folder of files; requests are counted by the brokers as a
bucket's provider would bill them, all of them: flushes, indexes, roll-ups, manifests. In a turn
every partition gets one record of 100 bytes; a turn begins every flush interval, or when the one
before has been acknowledged if that takes longer. Requests name up to 1,000 partitions.
Next door: the producer (many.py), throughput, memory and reading (lanes.py).
"""

import argparse
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from benchmarks import many, run
from benchmarks.meter import cpu_s, rss_mb
from tests.support import wire
from tests.support.broker import KafscaleProcess
from tests.support.etcd import EtcdCluster

BROKERS = 3
FLUSH_MS = 250
LOGS = 3
PER_REQUEST = 1000
MOST_LOGS = 1000  # partitions of an ordinary topic; more of them are several topics
BAR_PUTS_S = 15.0
PUT = re.compile(rb'^kafscale_s3_requests_total\{.*operation="put".*\} (\S+)$', re.MULTILINE)


class Layout(NamedTuple):
    """How partitions become logs."""

    name: str
    configs: Mapping[str, str]
    is_dedicated: bool = False


LAYOUTS = (
    Layout("dedicated", {}, is_dedicated=True),
    Layout(f"virtual, on {LOGS} logs", {"physical.partitions": str(LOGS)}),
    Layout(f"shared, on {LOGS} logs", {"storage.placement": "shared"}),
)


class Measured(NamedTuple):
    """One layout with one number of partitions."""

    puts_s: float  # in seconds as they passed
    puts_a_turn: float
    turn_ms: float
    cpu_ms_a_turn: float
    rss_mb: float  # of all brokers at the end


@contextmanager
def fleet() -> Iterator[list[KafscaleProcess]]:
    """Brokers that share a folder and an etcd."""
    with tempfile.TemporaryDirectory(prefix="partitions-") as folder, ExitStack() as undo:
        env = {
            "KAFSCALE_ETCD_ENDPOINTS": undo.enter_context(EtcdCluster()).endpoints[0],
            # On a busy machine no broker is to lose its logs in the middle of a figure.
            "KAFSCALE_ETCD_LEASE_TTL": "60s",
            "KAFSCALE_DATA_DIR": str(Path(folder) / "data"),
            "KAFSCALE_FLUSH_INTERVAL_MS": str(FLUSH_MS),
        }
        yield [
            undo.enter_context(
                KafscaleProcess(
                    Path(folder) / str(number), {**env, "KAFSCALE_BROKER_ID": str(number)}
                )
            )
            for number in range(BROKERS)
        ]


def measure(layout: Layout, count: int, seconds: float) -> Measured:
    """Traffic for about so long; many.Refused if the brokers do not know the layout."""
    with fleet() as brokers, ExitStack() as undo:
        lines = {broker.port: undo.enter_context(many.Line(broker.port)) for broker in brokers}
        requests = _settled(lines, layout, count)
        puts, cpu = _puts(brokers), _cpu(brokers)
        turns, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds or turns < 2:
            _turn(lines, requests)
            turns += 1
            due = began + turns * FLUSH_MS / 1000
            time.sleep(max(0.0, due - time.perf_counter()))
        took_s = time.perf_counter() - began
        puts, cpu = _puts(brokers) - puts, _cpu(brokers) - cpu
        return Measured(
            puts / took_s,
            puts / turns,
            took_s / turns * 1000,
            cpu / turns * 1000,
            sum(rss_mb(broker.pid) for broker in brokers),
        )


def _settled(lines: Mapping[int, many.Line], layout: Layout, count: int) -> list[tuple[int, bytes]]:
    """Make the topics; a turn's requests, once two turns went well: every log is open then."""
    asked = next(iter(lines.values()))
    while min(many.brokers(line) for line in lines.values()) < BROKERS:
        time.sleep(0.1)
    at_once = MOST_LOGS if layout.is_dedicated else count
    sizes = {
        f"t{number}": min(at_once, count - begin)
        for number, begin in enumerate(range(0, count, at_once))
    }
    for topic, size in sizes.items():
        many.create(asked, topic, size, layout.configs)
    deadline = time.monotonic() + 120
    while True:
        requests = [one for topic, size in sizes.items() for one in _requests(asked, topic, size)]
        try:
            for _ in range(2):
                _turn(lines, requests)
            return requests
        except many.Refused:  # partitions find their leaders
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _requests(line: many.Line, topic: str, count: int) -> Iterator[tuple[int, bytes]]:
    """Port and request, for all partitions of a topic."""
    while len(found := many.leaders(line, topic)) < count:
        time.sleep(0.1)
    batch = wire.batch([b"x" * 100], timestamp_ms=run.NOW_MS)
    of_broker = defaultdict(list)
    for partition, port in found.items():
        of_broker[port].append(partition)
    for port, mine in of_broker.items():
        for at in range(0, len(mine), PER_REQUEST):
            yield port, many.produce_frame(topic, mine[at : at + PER_REQUEST], batch)


def _turn(lines: Mapping[int, many.Line], requests: list[tuple[int, bytes]]) -> None:
    """One record into every partition, acknowledged."""
    for port, request in requests:
        lines[port].send(request)
    refused = None
    for port, _ in requests:
        try:
            many.check_produced(lines[port].answer())
        except many.Refused as reason:
            refused = reason
    if refused is not None:
        raise refused


def _puts(brokers: list[KafscaleProcess]) -> float:
    total = 0.0
    for broker in brokers:
        with urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=30) as page:
            total += sum(map(float, PUT.findall(page.read())))
    return total


def _cpu(brokers: list[KafscaleProcess]) -> float:
    return sum(cpu_s(broker.pid) for broker in brokers)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.partitions")
    parser.add_argument("--counts", default="10,100,1000,10000")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--most-dedicated", type=int, default=1000, help="more is extrapolated")
    parser.add_argument("--quick", action="store_true", help="10 and 100 partitions, a second each")
    options = parser.parse_args()
    if options.quick:
        options.counts, options.seconds = "10,100", 1.0
    print(
        f"PUTs per second: {BROKERS} brokers on etcd and one folder of files, flush every "
        f"{FLUSH_MS} ms,\na record of 100 bytes for every partition each {FLUSH_MS} ms or as "
        f"soon as the last turn is acknowledged; {options.seconds:g} s\n"
    )
    print(_line("partitions", "layout", "PUTs/s", "PUTs/turn", "turn ms", "CPU ms/turn", "RSS MB"))
    missing: dict[str, str] = {}
    per_partition = 1.0
    for count in map(int, options.counts.split(",")):
        for layout in LAYOUTS:
            if layout.name in missing:
                continue
            if layout.is_dedicated and count > options.most_dedicated:
                puts = per_partition * count
                pace = f"~{puts * 1000 / FLUSH_MS:.0f}"
                print(_line(str(count), layout.name, pace, f"~{puts:.0f}", "-", "-", "-"))
                continue
            try:
                found = measure(layout, count, options.seconds)
            except many.Refused as reason:
                missing[layout.name] = str(reason)
                continue
            if layout.is_dedicated:
                per_partition = found.puts_a_turn / count
            print(_told(count, layout, found), flush=True)
    for name, reason in missing.items():
        print(f"\n{name}: not measured, the brokers refuse it ({reason})")
    print(f"\n~ extrapolated from the PUTs of a partition and turn, at a turn each {FLUSH_MS} ms")
    return 0


def _told(count: int, layout: Layout, found: Measured) -> str:
    word = "" if layout.is_dedicated else "  ok" if found.puts_s <= BAR_PUTS_S else "  MISSED"
    cells = _line(
        str(count),
        layout.name,
        f"{found.puts_s:.1f}",
        f"{found.puts_a_turn:.1f}",
        f"{found.turn_ms:.0f}",
        f"{found.cpu_ms_a_turn:.0f}",
        f"{found.rss_mb:.0f}",
    )
    return cells + word


def _line(*cells: str) -> str:
    widths = (10, 18, 8, 10, 8, 12, 7)
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


if __name__ == "__main__":
    sys.exit(main())
