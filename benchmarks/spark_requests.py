"""What a day of a table costs in requests: `python -m benchmarks.spark_requests`.

In this room: a broker and a producer of a steady rate on a real S3 server, and a runner of the
pipeline whose every request passes a door that counts. What it sent in some minutes is multiplied
to a day, at S3's list prices. Beside it stands Spark's Kafka connector streaming into Delta with a
batch as often as a runner exports: of that only the files that stay are counted, each as one PUT,
because the bare PySpark package has no file system for a bucket. Its GETs, LISTs and renames come
on top, and its reads are work of a broker.
The runner reads each flush of the log by a GET: fewer and larger flushes cost less.
Next door: how old records are (spark_freshness.py), which has the producer and both followers.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from aiohttp import web

from benchmarks.spark_freshness import connector, create, produce, runner
from kafscale.spark.report.statistics import Prices
from tests.faults.history import History
from tests.faults.links import LoopThread
from tests.faults.s3_proxy import S3Proxy
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.seaweed import BUCKET, SeaweedServer

NAMESPACE: Final = "default"
STORE: Final = f"s3://{BUCKET}/{NAMESPACE}"
KINDS: Final = ("put", "list", "get", "head", "delete")
DAY_S: Final = 86_400


class CountingDoor(S3Proxy):
    """Counts requests by kind."""

    def __init__(self, thread: LoopThread, port: int) -> None:
        self.counts: Counter[str] = Counter()
        super().__init__(thread, port, "runner", History(1))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.counts[_kind(request)] += 1
        return await super()._answer(request)


def _kind(request: web.BaseRequest) -> str:
    query = request.raw_path.partition("?")[2]
    if request.method == "GET" and ("list-type" in query or "prefix=" in query):
        return "list"
    if request.method == "POST":  # several names at once, or the parts of a large object
        return "delete" if "delete" in query else "put"
    return request.method.lower()


def usd(counts: Counter[str]) -> float:
    """At list prices; deleting is free."""
    prices = Prices()
    writes, reads = counts["put"] + counts["list"], counts["get"] + counts["head"]
    return (writes * prices.put + reads * prices.get) / 1000


def daily(counts: Counter[str], seconds: float) -> Counter[str]:
    """As many in a day."""
    return Counter({kind: round(counts[kind] * DAY_S / seconds) for kind in KINDS})


def print_row(name: str, counts: Counter[str]) -> None:
    cells = "".join(f"{counts[kind]:10,}" for kind in KINDS)
    print(f"{name:40}{cells}{usd(counts):10.3f}", flush=True)


def ours(scratch: Path, given: argparse.Namespace) -> Counter[str]:
    """What the runner sends, and what `pipeline status` says that it costs."""
    wires = LoopThread()
    with SeaweedServer() as s3:
        environment = s3.broker_environment(NAMESPACE)
        door = CountingDoor(wires, s3.port)
        there = {**os.environ, **environment, "KAFSCALE_S3_ENDPOINT": door.endpoint}
        with KafscaleProcess(scratch, environment) as broker:
            create(broker.bootstrap, given.freshness_ms)
            with runner(STORE, env=there):
                produce(broker.bootstrap, given.mb_per_s, given.freshness_ms / 1000)  # settle
                door.counts.clear()
                began = time.monotonic()
                produce(broker.bootstrap, given.mb_per_s, given.seconds)
                counts = daily(door.counts, time.monotonic() - began)
            status = subprocess.run(
                [sys.executable, "-m", "kafscale.cli.main", "pipeline", "status", "--store", STORE],
                env={**os.environ, **environment}, capture_output=True, text=True, check=False,
            )  # fmt: skip
            print(status.stdout)
        door.close()
    wires.close()
    return counts


def theirs(scratch: Path, given: argparse.Namespace) -> Counter[str]:
    """The files that the connector's way leaves, each a PUT; nothing else is counted."""
    with KafscaleProcess(scratch) as broker:
        create(broker.bootstrap, given.freshness_ms)
        folder = scratch / "peer"
        with connector(broker.bootstrap, folder, given.freshness_ms):
            produce(broker.bootstrap, given.mb_per_s, given.freshness_ms / 1000)
            before = _files(folder)
            began = time.monotonic()
            produce(broker.bootstrap, given.mb_per_s, given.seconds)
            seconds = time.monotonic() - began
            return daily(Counter(put=_files(folder) - before), seconds)


def _files(folder: Path) -> int:
    """Without checksums, which only local file systems have."""
    return sum(path.is_file() and path.suffix != ".crc" for path in folder.rglob("*"))


def main() -> None:
    """Print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb-per-s", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=180.0, help="that are counted")
    parser.add_argument("--freshness-ms", type=int, default=60_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafscale-requests-") as where:
        mine = ours(Path(where) / "ours", given)
        title = f"in a day at {given.mb_per_s:g} MB/s, {given.freshness_ms / 1000:g} s promised"
        print(f"{title:40}{''.join(f'{kind:>10}' for kind in KINDS)}{'USD':>10}")
        print_row("ours, all requests", mine)
        try:
            other = theirs(Path(where) / "theirs", given)
        except Unavailable as reason:
            print(f"the connector cannot be had: {reason}")
            return
    print_row("the connector's way, files that stay", other)
    print(
        f"the runner sends {mine['put'] / other['put']:.2f} of the connector's PUTs; all that it "
        f"sends costs {usd(mine) / usd(other):.2f} of the connector's files alone"
    )


if __name__ == "__main__":
    main()
