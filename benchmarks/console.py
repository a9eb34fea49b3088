"""What the web console weighs: pages, memory, CPU, and whether producers feel a search.

    python -m benchmarks.console [--quick]

It starts a broker and a console beside it, which is left alone for a while: memory and CPU, without
libraries that only tests install. Then the same with 1,000 topics of 10 partitions. A real browser
opens the list of topics: how long until rows are painted, and how many questions it asks. A
producer sends at a steady pace, without and with a search that reads a large topic again and
again, in turns: the ratio of the two 99th percentiles. Last, the sizes of the page's files, as a
browser loads them.
"""

import argparse
import gzip
import json
import re
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Browser, expect

from benchmarks.meter import cpu_s
from tests.e2e.console.test_journeys import log_in
from tests.support import browser as chromium
from tests.support import ui
from tests.support.broker import KafscaleProcess
from tests.support.console import CREDENTIALS, ConsoleProcess
from tests.support.console_api import Visit

_TOPICS: Final = 1000
_PARTITIONS: Final = 10
_VALUE: Final = b'{"id":73314510714175488,"amount":120.5,"customer":"c-77","note":"%s"}' % (
    b"x" * 90
)

# structlog takes these where it finds them; an installation has none of them.
_OF_TESTS: Final = ("rich", "greenlet")

# Notes when the frame after the one with the rows begins: then they are painted.
_NOTE_ROWS: Final = """(() => {
  const note = () => { window.rowsAfterMs = performance.now(); };
  const look = () => requestAnimationFrame(
    document.querySelectorAll("tbody tr").length > 10 ? note : look);
  look();
})()"""


def create_topics(broker: KafscaleProcess, count: int) -> None:
    """Many topics, so many at a time that no answer takes long."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for first in range(0, count, 50):
        part = [
            NewTopic(f"topic-{number:04}", _PARTITIONS)
            for number in range(first, min(first + 50, count))
        ]
        for made in admin.create_topics(part, request_timeout=120).values():
            made.result(180)


def open_console(broker: KafscaleProcess, folder: Path) -> ConsoleProcess:
    """A console as it is installed."""
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    for name in _OF_TESTS:
        (hidden / f"{name}.py").write_text("raise ImportError\n")
    return ConsoleProcess(broker, folder, {**CREDENTIALS, "PYTHONPATH": str(hidden)}).start()


def first_paint(browser: Browser, console: ConsoleProcess, count: int) -> tuple[float, list[str]]:
    """Seconds from asking for the address until rows are painted, and the questions for it."""
    page = chromium.visit(browser)
    page.add_init_script(_NOTE_ROWS)
    log_in(page, console)
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if "/api/" in one.url else None)
    page.goto(f"{console.url}/topics")
    expect(page.get_by_text(f"of {count:,} topics")).to_be_visible()  # loaded once, and warm
    times = []
    for _ in range(5):
        asked.clear()
        page.goto(f"{console.url}/topics", wait_until="commit")
        times.append(page.wait_for_function("window.rowsAfterMs").json_value() / 1000)
    questions = sorted({one.partition("/api/v1/")[2].partition("?")[0] for one in asked})
    page.context.close()
    return statistics.median(times), questions


def idle(console: ConsoleProcess, seconds: float) -> tuple[float, float]:
    """CPU as a share of one core, and memory, of a console that no page is open on."""
    before_s = cpu_s(console.pid)
    began_s = time.monotonic()
    time.sleep(seconds)
    share = (cpu_s(console.pid) - before_s) / (time.monotonic() - began_s)
    return share, psutil.Process(console.pid).memory_info().rss / 1e6


def p99_ms(broker: KafscaleProcess, seconds: float) -> float:
    """The 99th percentile of a producer that sends 200 records a second, acks=all."""
    took: list[float] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sent = time.monotonic()
        producer.produce(
            "topic-0000", b"x" * 100,
            on_delivery=lambda _e, _m, sent=sent: took.append(time.monotonic() - sent),
        )  # fmt: skip
        producer.poll(0.005)
    producer.flush(60)
    return statistics.quantiles(took, n=100)[98] * 1000


def searching(console: ConsoleProcess, stop: threading.Event) -> None:
    """Search a large topic for what is not in it, until stopped."""
    visit = Visit(console.port)
    visit.log_in()
    body = {"from_kind": "oldest", "filter": 'value.customer == "c-0"'}
    while not stop.is_set():
        for name, event in visit.events("topics/topic-0001/records:search", body):
            assert name != "error", event


def felt(broker: KafscaleProcess, console: ConsoleProcess, turns: int, seconds: float) -> None:
    """Print the producer's percentile with and without a search, in turns."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    for _ in range(100_000):
        producer.produce("topic-0001", _VALUE)
        producer.poll(0)
    producer.flush(120)
    alone, beside = [], []
    for _ in range(turns):
        alone.append(p99_ms(broker, seconds))
        stop = threading.Event()
        search = threading.Thread(target=searching, args=(console, stop))
        search.start()
        beside.append(p99_ms(broker, seconds))
        stop.set()
        search.join()
    one, other = statistics.median(alone), statistics.median(beside)
    print(
        f"p99 of a producer: {one:.1f} ms alone, {other:.1f} ms beside a search, {other / one:.2f}x"
    )


def sizes(static: Path) -> None:
    """Print what a browser loads for the login, and in all."""

    def packed(files: list[Path]) -> float:
        return sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) / 1000

    index = (static / "index.html").read_text("utf-8")
    first = [static / name for name in re.findall(r'(?:src|href)="\./([^"]+)"', index)]
    every = [file for file in static.rglob("*") if file.is_file()]
    print(f"page: login {packed(first):.1f} kB gzip, everything {packed(every):.1f} kB")


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only whether it runs")
    quick = parser.parse_args().quick
    count = 20 if quick else _TOPICS
    sizes(ui.built())
    with tempfile.TemporaryDirectory() as folder, KafscaleProcess() as broker:
        console = open_console(broker, Path(folder))
        time.sleep(12)
        share, size = idle(console, 5 if quick else 20)
        print(f"console, no topics, no page open: {share * 100:.2f} % of a core, {size:.0f} MB")
        console.kill()
        create_topics(broker, count)
        console = open_console(broker, Path(folder))
        try:
            time.sleep(15)  # it looks every five seconds
            share, size = idle(console, 5 if quick else 40)
            print(
                f"console, {count:,} topics, no page open: "
                f"{share * 100:.2f} % of a core, {size:.0f} MB"
            )
            with chromium.started() as browser:
                seconds, questions = first_paint(browser, console, count)
            print(f"{count:,} topics, {count * _PARTITIONS:,} partitions: "
                  f"rows painted after {seconds:.2f} s; "
                  f"asked: {json.dumps(questions)}")  # fmt: skip
            felt(broker, console, 1 if quick else 3, 2 if quick else 10)
            time.sleep(0 if quick else 35)  # no page is open any more, and memory was returned
            share, size = idle(console, 5 if quick else 30)
            print(f"console afterwards: {share * 100:.2f} % of a core, {size:.0f} MB")
        finally:
            console.kill()


if __name__ == "__main__":
    main()
