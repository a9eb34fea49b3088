"""A broker under attack, and what must hold of it after every blow.

In this room: the process, its memory, its log, its counters.
Next door: the bytes that are thrown at it (missiles.py).
"""

import contextlib
import json
import socket
import struct
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.support import wire
from tests.support.broker import KafscaleProcess
from tests.support.exposition import parse
from tests.support.ports import free_port, is_open

# The bombs of these tests unpack to 64 MiB at least; an allocator's whims stay below this.
MOST_GROWTH_BYTES = 40 << 20
ANSWER_S = 60.0
FRAME_S = 2.0  # how long a frame may take, in this configuration
IDLE_S = 300.0  # longer than any test: a connection that falls silent meanwhile would be counted
_EVENTS = ("connection_refused", "bad_request", "client_error")
_SETTINGS = f"""
network:
  connectionTimeout: {FRAME_S}s
  idleTimeout: {{idle_s}}s
  maxConnections: 600
storage:
  housekeepingInterval: 60s
cache:
  tailCacheSize: 8Mi
logging:
  level: debug
  format: json
"""


class CountingProcess(KafscaleProcess):
    """A broker that is asked for its counters from the start."""

    def answers(self) -> bool:
        return super().answers() and is_open(self.metrics_port)


class Victim:
    """One broker process with short deadlines."""

    def __init__(self, folder: Path, idle_s: float = IDLE_S) -> None:
        settings = folder / "kafscale.yaml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(_SETTINGS.format(idle_s=idle_s))
        self.sc_port, self.spu_port = free_port(), free_port()
        environment = {
            "KAFSCALE_CONFIG": str(settings),
            "KAFSCALE_FLUVIO_ENABLED": "true",
            "KAFSCALE_FLUVIO_SC_PORT": str(self.sc_port),
            "KAFSCALE_FLUVIO_SPU_PORT": str(self.spu_port),
        }
        self.process = CountingProcess(folder / "broker", environment)
        self._open: list[socket.socket] = []

    # -- connections -------------------------------------------------------------------------

    def connect(self, receive_buffer: int | None = None, port: int = 0) -> socket.socket:
        """A new connection, to the Kafka port if not told otherwise; the fixture closes it."""
        sock = socket.socket()
        sock.settimeout(ANSWER_S)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect(("127.0.0.1", port or self.process.port))
        self._open.append(sock)
        return sock

    def keep(self, sock: socket.socket) -> None:
        """Have the fixture close this connection, too."""
        self._open.append(sock)

    def close_connections(self) -> None:
        for sock in self._open:
            sock.close()
        self._open.clear()

    def close_connections_but(self, kept: socket.socket) -> None:
        for sock in self._open:
            if sock is not kept:
                sock.close()
        self._open = [kept]

    def ask(self, sock: socket.socket, request: bytes) -> bytes:
        """Send a frame and give the body of the answer, which must carry its correlation id."""
        sock.sendall(request)
        correlation_id, body = wire.read_answer(sock)
        assert correlation_id == struct.unpack_from(">i", request, 8)[0]
        return body

    def answer(self, sock: socket.socket) -> bytes:
        """The body of the next answer, whatever it answers."""
        return wire.read_answer(sock)[1]

    def is_served(self, sock: socket.socket) -> bool:
        """Whether this connection still gets answers."""
        body = self.ask(sock, wire.frame(wire.API_VERSIONS, 0, 77, b""))
        return bool(struct.unpack_from(">h", body)[0] == 0)

    # -- observation -------------------------------------------------------------------------

    def leader_epoch(self, topic: str) -> int:
        """What Metadata (version 7) tells of partition 0."""
        body = self.ask(
            self.connect(),
            wire.frame(3, 7, 1, struct.pack(">i", 1) + wire.string(topic) + b"\0"),
        )
        at = body.index(wire.string(topic)) + 2 + len(topic) + 1 + 4
        _, _, _, epoch = struct.unpack_from(">hiii", body, at)
        return int(epoch)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def refusals(self) -> Counter[str]:
        """Bad requests and other errors of clients so far, by reason."""
        url = f"http://127.0.0.1:{self.process.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as page:
            samples = parse(page.read())
        refused: Counter[str] = Counter()
        for (name, labels), value in samples.items():
            if name in ("kafscale_bad_requests_total", "kafscale_client_errors_total"):
                refused[dict(labels)["reason"]] += int(value)  # doors may differ over a reason
        return refused

    def log_lines(self, begin: int) -> list[dict[str, object]]:
        """What was logged about bad requests since byte `begin` of the output."""
        raw = self.process.output.read_bytes()[begin:]
        events = [json.loads(line) for line in raw.splitlines() if line.startswith(b"{")]
        return [row for row in events if row["event"] in _EVENTS]

    @contextlib.contextmanager
    def suffers(self, reason: str | None, times: int = 1) -> Iterator[list[dict[str, object]]]:
        """Whatever happens inside: the broker lives, serves others, and tells why it refused.

        Gives the list that will hold the log lines.
        """
        with self.suffers_all(*[reason] * times if reason else ()) as lines:
            yield lines

    @contextlib.contextmanager
    def suffers_all(self, *reasons: str) -> Iterator[list[dict[str, object]]]:
        """The same for several refusals."""
        self.warm_up()
        bystander = self.connect()
        assert self.is_served(bystander)
        before, log_begin = self.refusals(), self.process.output.stat().st_size
        resident = self.resident_bytes()
        lines: list[dict[str, object]] = []
        yield lines
        assert self.process.running, self.process.tail()
        assert self.is_served(self.connect()), "a new connection is not served"
        grown = self.resident_bytes() - resident
        assert grown < MOST_GROWTH_BYTES, f"memory grew by {grown >> 20} MiB"
        expected = Counter(reasons)
        self._wait_for(before + expected)
        lines += self.log_lines(log_begin)
        assert Counter(str(row["reason"]) for row in lines) == expected
        output = self.process.output.read_text(errors="replace")
        assert "Traceback" not in output, output[-2000:]

    def refused_since(self, before: Counter[str]) -> Counter[str]:
        """What has been refused since, as soon as something was."""
        deadline = time.monotonic() + ANSWER_S
        while not (found := self.refusals() - before):
            assert time.monotonic() < deadline, "nothing was refused"
            time.sleep(0.02)
        return found

    def warm_up(self) -> None:
        """Load what the first request of its kind loads, so that it is not taken for growth."""
        self.refusals()

    def _wait_for(self, expected: Counter[str]) -> None:
        """A refusal is counted a moment after its connection is seen to end."""
        deadline = time.monotonic() + ANSWER_S
        while (found := self.refusals()) != expected and time.monotonic() < deadline:
            time.sleep(0.02)
        assert found == expected, f"{found - expected} too many, {expected - found} missing"


def is_closed(sock: socket.socket, within_s: float = ANSWER_S) -> bool:
    """Whether the broker ends this connection in time without a word."""
    sock.settimeout(within_s)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
