"""Many idle connections, some slow ones, and one new client that works.

In this room: opening the crowd from several addresses of loopback, and measuring the new client.
"""

import contextlib
import resource
import socket
import threading
import time
from dataclasses import dataclass

from confluent_kafka import Producer

from benchmarks.meter import rss_mb
from tests.faults.workers import QUIET
from tests.support import wire
from tests.support.broker import KafscaleProcess

ADDRESSES = 8
FILES = 12_000


@dataclass(frozen=True, slots=True)
class Served:
    """How many connections stayed to the end, and how long the new client waited."""

    idle: int
    slow: int
    question_s: float
    produced_s: float
    memory_mb: float


def measure(idle: int, slow: int) -> Served:
    allow_files(FILES)
    env = {"KAFSCALE_MAX_CONNECTIONS": str(FILES)}
    with KafscaleProcess(env=env) as broker, contextlib.ExitStack() as crowd:
        quiet = [_connected(crowd, broker.port, number) for number in range(idle)]
        dawdling = [_connected(crowd, broker.port, number) for number in range(slow)]
        ended = threading.Event()
        dawdler = threading.Thread(target=_dawdle, args=(dawdling, ended), daemon=True)
        dawdler.start()
        try:
            time.sleep(1.0)
            begun_s = time.monotonic()
            if not wire.answers(broker.port, timeout_s=30):
                raise RuntimeError("the broker does not answer")
            question_s = time.monotonic() - begun_s
            produced_s = max(_produce(broker.bootstrap, number) for number in range(3))
            memory_mb = rss_mb(broker.pid)
        finally:
            ended.set()
            dawdler.join()
        open_ = [sum(map(_is_open, some)) for some in (quiet, dawdling)]
    return Served(open_[0], open_[1], question_s, produced_s, memory_mb)


def allow_files(count: int) -> None:
    """As many open files as the crowd needs; the broker inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise RuntimeError(f"{count} open files are needed, {hard} allowed: ulimit -Hn")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _connected(crowd: contextlib.ExitStack, port: int, number: int) -> socket.socket:
    source = (f"127.0.0.{2 + number % ADDRESSES}", 0)
    return crowd.enter_context(socket.create_connection(("127.0.0.1", port), 10, source))


def _dawdle(sockets: list[socket.socket], ended: threading.Event) -> None:
    """A byte of a request now and then, never the whole."""
    request = wire.frame(wire.API_VERSIONS, 0, 1, b"", client="x" * 200)
    for byte in range(len(request) - 1):
        for sock in sockets:
            with contextlib.suppress(OSError):  # counted at the end
                sock.sendall(request[byte : byte + 1])
        if ended.wait(0.2):
            return


def _is_open(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return sock.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _produce(bootstrap: str, number: int) -> float:
    """A new client with default settings: from nothing to an acknowledged record."""
    begun_s = time.monotonic()
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    producer.produce(f"newcomer-{number}", b"x")
    if producer.flush(30):
        raise RuntimeError("no answer")
    return time.monotonic() - begun_s
