"""What an innocent producer feels while other clients attack the broker.

    python -m benchmarks.innocent [--quick] [--seconds 3] [--only WORDS] [--topics 3000]

One producer sends one record at a time with acks=all, first alone, then under each attack and under
all of them together. Printed are its latencies and the longest turn of the broker's event loop with
its cause, as the broker's own debug switch (logging.longTurns) reports it. A turn is shown with its
processor time, too: on a busy machine the broker may be kept from running.
Goal: p99 at most 100 ms beyond the quiet value, no turn above 50 ms.
Next door: the attacks (attacks.py).
"""

import argparse
import functools
import json
import multiprocessing
import os
import platform
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import attacks
from benchmarks.many import Line, create
from benchmarks.meter import cpu_s
from tests.support import wire
from tests.support.broker import KafscaleProcess

TOPIC: Final = "innocent"
_ANSWER_S: Final = 120.0
_LONG_TURN_MS: Final = 50
_IDLE_CPU_S: Final = 0.05
_processes = multiprocessing.get_context("spawn")

Attacker = Callable[[Event, Event, Event], None]  # ready, go, stop


class Felt(NamedTuple):
    """The latencies of a stretch, in milliseconds, and the broker's longest turn meanwhile."""

    sent: int
    p50: float
    p99: float
    worst: float
    turns: list[dict[str, object]]
    cpu_s: float


def produce_for(port: int, seconds: Connection, latencies: Connection) -> None:
    """The innocent producer's process: for each number of seconds asked for, its latencies."""
    with socket.create_connection(("127.0.0.1", port), _ANSWER_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        batch = wire.batch([b"x" * 100], 0)
        number = 0
        while (span_s := seconds.recv()) is not None:
            found = []
            end = time.perf_counter() + span_s
            while (began := time.perf_counter()) < end:
                number += 1
                sock.sendall(wire.produce(TOPIC, 0, batch, -1, number))
                _, body = wire.read_answer(sock)
                found.append((time.perf_counter() - began) * 1000)
                assert wire.produce_error(body)[0] == 0
                time.sleep(0.002)
            latencies.send(found)


class Bench:
    """A broker, an innocent producer, and stretches of time."""

    def __init__(self, broker: KafscaleProcess, span_s: float) -> None:
        self._broker = broker
        self._span_s = span_s
        asked, self._seconds = _processes.Pipe(duplex=False)
        self._latencies, told = _processes.Pipe(duplex=False)
        self._innocent = _processes.Process(
            target=produce_for, args=(broker.port, asked, told), daemon=True
        )
        self._innocent.start()

    def close(self) -> None:
        self._seconds.send(None)
        self._innocent.join(_ANSWER_S)

    def feel(self) -> Felt:
        """Produce for a while."""
        said = self._broker.output.stat().st_size
        cpu = cpu_s(self._broker.pid)
        self._seconds.send(self._span_s)
        assert self._latencies.poll(self._span_s + _ANSWER_S), "the producer gets no answer"
        found = sorted(self._latencies.recv())
        time.sleep(0.1)
        return Felt(
            len(found),
            statistics.median(found),
            found[min(len(found) - 1, int(len(found) * 0.99))],
            found[-1],
            self._long_turns(said),
            cpu_s(self._broker.pid) - cpu,
        )

    def _long_turns(self, begin: int) -> list[dict[str, object]]:
        lines = self._broker.output.read_bytes()[begin:].splitlines()
        events = (json.loads(line) for line in lines if line.startswith(b"{"))
        turns = [event for event in events if event["event"] == "long_turn"]
        return sorted(turns, key=lambda turn: -int(turn["turn_ms"]))

    @contextmanager
    def under(self, attackers: list[Attacker]) -> Iterator[None]:
        """Let attackers run, each in a process of its own."""
        go, stop = _processes.Event(), _processes.Event()
        ready = [_processes.Event() for _ in attackers]
        running = [
            _processes.Process(target=attacker, args=(one, go, stop), daemon=True)
            for attacker, one in zip(attackers, ready, strict=True)
        ]
        for process in running:
            process.start()
        for one in ready:
            assert one.wait(_ANSWER_S), "an attack could not be built"
        go.set()
        time.sleep(0.2)
        try:
            yield
        finally:
            stop.set()
            for process in running:
                process.join(1)
                process.kill()
                process.join()
            self._wait_until_idle()

    def _wait_until_idle(self) -> None:
        """Let the broker end what it was asked for, so that the next row does not pay for it."""
        deadline = time.monotonic() + _ANSWER_S
        before = cpu_s(self._broker.pid)
        while time.monotonic() < deadline:
            time.sleep(0.25)
            now = cpu_s(self._broker.pid)
            if now - before < _IDLE_CPU_S:
                return
            before = now


def prepare(broker: KafscaleProcess, topics: int) -> None:
    """Create what the attacks are about."""
    with Line(broker.port) as line:
        create(line, TOPIC, 1, {})
        create(line, attacks.TOPIC, attacks.PARTITIONS, {})
        create(line, attacks.DEEP, 1, {})
        line.send(attacks.produce([(0, attacks.many_records())], attacks.DEEP))
        line.answer()
        every = [(n, attacks.good(b"v")) for n in range(attacks.PARTITIONS)]
        line.send(attacks.produce(every))
        line.answer()
        for number in range(topics):
            create(line, f"scraped-{number}", 1, {})
            if number % 100 == 0:
                line.send(attacks.produce([(0, attacks.good(b"v"))], f"scraped-{number}"))
                line.answer()


def show(name: str, felt: Felt, quiet: Felt | None) -> bool:
    """Print a row; whether the goal was met."""
    longest = felt.turns[0] if felt.turns else None
    beyond = felt.p99 - quiet.p99 if quiet else 0.0
    turn = f"{longest['turn_ms']} ({longest['cpu_ms']} CPU)" if longest else f"< {_LONG_TURN_MS}"
    met = beyond < 100 and (longest is None or int(str(longest["cpu_ms"])) <= _LONG_TURN_MS)
    print(
        f"{name:38} {felt.sent:5} {felt.p50:8.1f} {felt.p99:8.1f} {felt.worst:8.1f}"
        f" {felt.cpu_s:6.1f}  {turn:>16} {len(felt.turns):4}  {'' if met else 'NOT MET'}",
        flush=True,
    )
    for one in felt.turns[:2]:
        about = {key: one[key] for key in ("api", "task", "client_id") if key in one}
        print(f"      {one['turn_ms']} ms, {one['cpu_ms']} CPU: {one['at']} {about}", flush=True)
    return met


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.innocent")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each attack")
    parser.add_argument("--topics", type=int, default=3000, help="beside those of the attacks")
    parser.add_argument("--only", default="", help="attacks whose name has these words")
    parser.add_argument("--quick", action="store_true", help="0.5 s each, 100 topics")
    wanted = parser.parse_args()
    if wanted.quick:
        wanted.seconds, wanted.topics = 0.5, 100
    env = {"KAFSCALE_LOG_LONG_TURNS": f"{_LONG_TURN_MS}ms", "KAFSCALE_LOG_FORMAT": "json"}
    print(
        f"python {platform.python_version()}, {os.cpu_count()} cores,"
        f" load {os.getloadavg()[0]:.1f}; one broker on files, {wanted.topics} topics,"
        f" {wanted.seconds} s each"
    )
    with (
        tempfile.TemporaryDirectory(prefix="innocent-") as folder,
        KafscaleProcess(Path(folder), env) as broker,
    ):
        return _measure(broker, wanted)


def _measure(broker: KafscaleProcess, wanted: argparse.Namespace) -> int:
    prepare(broker, wanted.topics)
    attackers: dict[str, Attacker] = {
        attack.name: functools.partial(attacks.run, broker.port, attack.name)
        for attack in attacks.ATTACKS
    }
    for name, run in attacks.SPECIAL.items():
        port = broker.metrics_port if name == "scrapes" else broker.port
        attackers[name] = functools.partial(run, port)
    chosen = {name: one for name, one in attackers.items() if wanted.only in name}
    bench = Bench(broker, wanted.seconds)
    print(
        f"{'attack':38} {'sent':>5} {'p50 ms':>8} {'p99':>8} {'worst':>8} {'CPU s':>6}"
        "  longest turn, ms"
    )
    bench.feel()
    quiet = bench.feel()
    show("none", quiet, None)
    missed = []
    for name, attacker in chosen.items():
        with bench.under([attacker]):
            felt = bench.feel()
        if not show(name, felt, quiet):
            missed.append(name)
    if not wanted.only:
        with bench.under(list(chosen.values())):
            if not show("all together", bench.feel(), quiet):
                missed.append("all together")
    bench.close()
    print(f"goal not met by: {', '.join(missed) or 'none'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
