"""A flood of connections where the system allows few open files: producers do not feel it."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.bad_input import payloads
from tests.bad_input.attacked_broker import ANSWER_S, CountingProcess
from tests.support import wire

FILES = 1024
FLOOD = 1000


class FewFiles(CountingProcess):
    """A broker that may open 1,024 files."""

    def command(self) -> list[str]:
        return ["bash", "-c", f'ulimit -n {FILES}; exec "$@"', "few", *super().command()]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FewFiles]:
    with FewFiles(tmp_path) as started:
        yield started


def connect(port: int, sent: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
    sock.sendall(sent)
    return sock


def produce(broker: FewFiles, number: int) -> int:
    """The error code of a produce request on a connection of its own."""
    with connect(
        broker.port, wire.produce("t", 0, payloads.good(b"x" * 100_000), -1, number)
    ) as to:
        return wire.produce_error(wire.read_answer(to)[1])[0]


def create(broker: FewFiles) -> None:
    wish = wire.frame(payloads.CREATE_TOPICS, 1, 1, payloads.create_body("t"))
    with connect(broker.port, wish) as to:
        assert payloads.created(wire.read_answer(to)[1])[0] == 0


def open_files(broker: FewFiles) -> int:
    return len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir()))


def test_half_requests_for_the_page_of_operators_are_not_felt(broker: FewFiles) -> None:
    create(broker)
    flood = [connect(broker.metrics_port, b"GET /metr") for _ in range(FLOOD)]
    assert [produce(broker, number) for number in range(20)] == [0] * 20
    assert open_files(broker) < 200
    with connect(broker.metrics_port, b"GET /ready HTTP/1.1\r\n\r\n") as to:
        head, _, body = b"".join(iter(lambda: to.recv(1 << 16), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), (head, body)
    assert json.loads(body)["ready"] is True
    for sock in flood:
        sock.close()


def test_half_requests_of_kafka_clients_are_not_felt(broker: FewFiles) -> None:
    create(broker)
    batch = payloads.good(b"x" * 100_000)
    with connect(broker.port, b"") as producer:

        def produce_again(number: int) -> int:
            producer.sendall(wire.produce("t", 0, batch, -1, number))
            return wire.produce_error(wire.read_answer(producer)[1])[0]

        assert produce_again(0) == 0
        flood = [connect(broker.port, b"\0\0") for _ in range(FLOOD)]
        assert [produce_again(number) for number in range(1, 20)] == [0] * 19
        assert [produce(broker, number) for number in range(20)] == [0] * 20, "new producers"
        assert open_files(broker) < FILES - 100
        for sock in flood:
            sock.close()
    assert broker.running
    assert "Too many open files" not in broker.tail(lines=10_000)


def test_clients_that_connect_at_once_from_many_threads_leave_files_for_the_store(
    broker: FewFiles,
) -> None:
    create(broker)
    is_over = Event()

    def flood(port: int) -> None:
        held: list[socket.socket] = []
        while not is_over.is_set():
            try:
                held.append(connect(port, b"GET /"))
            except OSError:
                continue  # the broker has ended it already
            if len(held) == 300:
                for sock in held:
                    sock.close()
                held.clear()
        for sock in held:
            sock.close()

    ports = [broker.port, broker.metrics_port] * 3
    with ThreadPoolExecutor(len(ports)) as threads:
        floods = [threads.submit(flood, port) for port in ports]
        codes = [produce(broker, number) for number in range(50)]
        is_over.set()
        for one in floods:
            one.result()
    assert codes == [0] * 50
    assert "Too many open files" not in broker.tail(lines=10_000)
