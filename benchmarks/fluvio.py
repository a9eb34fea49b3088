"""What Fluvio clients cost a broker, beside Kafka clients with the same data.

    python -m benchmarks.fluvio [--quick]

First the conversion of records by itself, with the compiled loops and with plain Python. Then a
broker is written to and read from over one socket per protocol, with the same records: the figure
is its CPU time per record. Then the client of PyPI does the same with its defaults: it is slower
than a broker, so that its figure is the client's. Before all that, streams that wait: what each one
takes of a fresh broker's memory.
"""

import argparse
import importlib.util
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Final

from benchmarks import clients, run
from benchmarks.meter import Cost, Meter, rss_mb
from kafscale.gateways.fluvio.records import incoming, outgoing, splice
from kafscale.gateways.fluvio.records.outgoing import OpenedBatch
from kafscale.records import batch
from kafscale.records.batch import HEADER_SIZE
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.frame import request_frame
from kafscale.wire.fluvio.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafscale.wire.fluvio.messages.stream_fetch import (
    OffsetUpdate,
    StreamFetchRequest,
    StreamFetchResponse,
    UpdateOffsetsRequest,
)
from tests.support import wire
from tests.support.fluvio_clients import FluvioBroker, python_client
from tests.support.fluvio_records import FluvioRecord, write_batch
from tests.support.maven import Unavailable

SIZES: Final = {"100 B": 100, "1 KiB": 1024}
PER_BATCH: Final = {100: 500, 1024: 100}
IN_FLIGHT: Final = 8
VERSION: Final = 24
PRODUCE, STREAM_FETCH, UPDATE_OFFSETS = 0, 1003, 1005
MAX_BYTES: Final = 1 << 20
STREAMS_PER_CONNECTION: Final = 50


def _records(size: int) -> list[FluvioRecord]:
    return [
        FluvioRecord(b"key %06d" % number, (b"value %d " % number).ljust(size), number // 10)
        for number in range(PER_BATCH[size])
    ]


# -- the conversion by itself ----------------------------------------------------------------


@contextmanager
def _loops(module: ModuleType) -> Iterator[None]:
    """Use these loops for a while."""
    before = incoming.splice
    incoming.splice = outgoing.splice = module  # type: ignore[assignment]
    try:
        yield
    finally:
        incoming.splice = outgoing.splice = before  # type: ignore[assignment]


def _plain_loops() -> ModuleType:
    """The same loops, interpreted."""
    source = Path(incoming.__file__).with_name("splice.py")
    spec = importlib.util.spec_from_file_location("plain_splice", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _finish(steps: object) -> object:
    """Run a generator to its end; gives what it returns."""
    assert isinstance(steps, Iterator)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _convert(size: int, count: int) -> tuple[float, float]:
    """Microseconds per record, in and out."""
    sent = write_batch(_records(size), first_ms=run.NOW_MS)
    rounds = max(1, count // PER_BATCH[size])

    def take_in() -> bytearray:
        read = incoming.read_batch(memoryview(sent))
        stored = _finish(incoming.spliced(read, incoming.unpack(read, 1 << 27)))
        assert isinstance(stored, bytearray)
        return stored

    stored = memoryview(take_in())
    (_, header) = next(batch.walk(stored))

    def hand_out() -> None:
        opened = OpenedBatch(header, bytes(stored[HEADER_SIZE:]))
        runs = _finish(outgoing.cut(opened, 0))
        assert isinstance(runs, list)
        outgoing.record_set(runs, 0, header.next_offset)

    return _per_record(take_in, rounds, size), _per_record(hand_out, rounds, size)


def _per_record(work: Callable[[], object], rounds: int, size: int) -> float:
    began_s = time.process_time()
    for _ in range(rounds):
        work()
    return (time.process_time() - began_s) / (rounds * PER_BATCH[size]) * 1e6


def show_conversion(count: int) -> None:
    """Print both directions, with both kinds of loops."""
    kinds = {"compiled": splice, "interpreted": _plain_loops()}
    if splice.__file__.endswith(".py"):
        del kinds["compiled"]
        print("the loops are not compiled here (make setup needs a C compiler)")
    for kind, module in kinds.items():
        with _loops(module):
            for name, size in SIZES.items():
                taken, handed = _convert(size, count if kind == "compiled" else count // 10)
                print(
                    f"conversion, {kind:11} {name:>6}  in {taken:6.2f}  out {handed:6.2f} us/record"
                )


# -- a broker over one socket ----------------------------------------------------------------


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _fluvio_frame(
    api: int, number: int, message: schema.FluvioTable, version: int = VERSION
) -> bytes:
    return b"".join(bytes(one) for one in request_frame(api, version, number, "bench", message))


def _in_flight(
    sock: socket.socket, frame: bytes, total: int, check: Callable[[bytes], None]
) -> None:
    for number in range(total + IN_FLIGHT):
        if number >= IN_FLIGHT:
            check(wire.read_answer(sock)[1])
        if number < total:
            sock.sendall(frame)


def _fluvio_produce(broker: FluvioBroker, topic: str, size: int, batches: int) -> Cost:
    sent = write_batch(_records(size), first_ms=run.NOW_MS)
    rows = [TopicProduceData(topic, [PartitionProduceData(0, [sent])])]
    frame = _fluvio_frame(PRODUCE, 1, ProduceRequest(isolation=-1, timeout_ms=1500, topics=rows))

    def check(body: bytes) -> None:
        answer = schema.decode(ProduceResponse, memoryview(body), VERSION)
        assert answer.topics[0].partitions[0].error.code == 0

    with _connect(broker.spu_port) as sock:
        _in_flight(sock, frame, IN_FLIGHT, check)
        with Meter(broker) as meter:
            _in_flight(sock, frame, batches, check)
    return meter.cost


def _kafka_produce(broker: FluvioBroker, topic: str, size: int, batches: int) -> Cost:
    sent = write_batch(_records(size), first_ms=run.NOW_MS)
    read = incoming.read_batch(memoryview(sent))
    stored = _finish(incoming.spliced(read, incoming.unpack(read, 1 << 27)))
    assert isinstance(stored, bytearray)
    frame = wire.produce(topic, 0, bytes(stored), -1, 1)

    def check(body: bytes) -> None:
        assert wire.produce_error(body)[0] == 0

    with _connect(broker.port) as sock:
        _in_flight(sock, frame, IN_FLIGHT, check)
        with Meter(broker) as meter:
            _in_flight(sock, frame, batches, check)
    return meter.cost


def _fluvio_stream(broker: FluvioBroker, topic: str, count: int) -> Cost:
    with _connect(broker.spu_port) as sock, Meter(broker) as meter:
        sock.sendall(_fluvio_frame(STREAM_FETCH, 1, StreamFetchRequest(topic, 0, 0, MAX_BYTES)))
        at = 0
        while at < count:
            number, body = wire.read_answer(sock)
            if number != 1:
                continue  # credit was taken
            answer = schema.decode(StreamFetchResponse, memoryview(body), VERSION)
            assert answer.error.code == 0
            assert isinstance(answer.records, memoryview)
            at = _end_of(answer.records)
            credit = UpdateOffsetsRequest([OffsetUpdate(at, answer.stream_id)])
            sock.sendall(_fluvio_frame(UPDATE_OFFSETS, 2, credit, 0))
    return meter.cost


def _end_of(records: memoryview) -> int:
    """The offset behind the last batch of a record set: both formats have it at the same place."""
    *_, (_, last) = batch.walk(records)
    return last.next_offset


def _kafka_fetch(broker: FluvioBroker, topic: str, count: int) -> Cost:
    with _connect(broker.port) as sock, Meter(broker) as meter:
        at = 0
        while at < count:
            sock.sendall(wire.fetch(topic, 0, at, 1))
            error, _, records = wire.fetched(wire.read_answer(sock)[1])
            assert error == 0
            at = _end_of(records)
    return meter.cost


def show_broker(broker: FluvioBroker, megabytes: int) -> None:
    """Print CPU time per record of both doors, written and read."""
    for name, size in SIZES.items():
        batches = max(4, megabytes * 1_000_000 // (size * PER_BATCH[size]))
        count = batches * PER_BATCH[size]
        costs: dict[str, Cost] = {}
        for door, produce, read in (
            ("Kafka", _kafka_produce, _kafka_fetch),
            ("Fluvio", _fluvio_produce, _fluvio_stream),
        ):
            topic = f"{door.lower()}-{size}"
            clients.create_topic(broker.bootstrap, topic, 1)
            costs[f"{door} written"] = produce(broker, topic, size, batches)
            costs[f"{door} read"] = read(broker, topic, count)
        for what, cost in costs.items():
            print(
                f"one socket, {what:15} {name:>6}  "
                f"{cost.broker_cpu_s / count * 1e6:6.2f} us/record of the broker, "
                f"{count / cost.wall_s:>9,.0f} records/s"
            )


# -- the real client -------------------------------------------------------------------------


def show_client(broker: FluvioBroker, count: int) -> None:
    """Print what the client of PyPI does with its defaults."""
    try:
        client = python_client()
    except Unavailable as reason:
        print(f"without the client of PyPI: {reason}")
        return
    for name, size in SIZES.items():
        topic = f"client-{size}"
        clients.create_topic(broker.bootstrap, topic, 1)
        for what in ("produce-many", "read-many"):
            with Meter(broker) as meter:
                (line,) = client.run(broker.control, what, topic, str(size), str(count))
            print(
                f"client of PyPI, {what:12} {name:>6}  "
                f"{meter.cost.broker_cpu_s / count * 1e6:6.2f} us/record of the broker, "
                f"{count / line['seconds']:>9,.0f} records/s"
            )


# -- streams that wait -----------------------------------------------------------------------


def show_idle(broker: FluvioBroker, streams: int) -> None:
    """Print what each stream takes that has nothing to read."""
    clients.create_topic(broker.bootstrap, "idle", 1)
    socks = [_connect(broker.spu_port) for _ in range(-(-streams // STREAMS_PER_CONNECTION))]
    try:
        _open_stream(socks[0])
        before_mb = rss_mb(broker.pid)
        for number in range(streams):
            _open_stream(socks[number // STREAMS_PER_CONNECTION])
        for sock in socks:  # its answer comes behind all that was sent before
            sock.sendall(_fluvio_frame(UPDATE_OFFSETS, 9, UpdateOffsetsRequest(), 0))
            wire.read_answer(sock)
        each_kb = (rss_mb(broker.pid) - before_mb) * 1000 / streams
        print(f"{streams} streams that wait, {len(socks)} connections: {each_kb:.1f} KB each")
    finally:
        for sock in socks:
            sock.close()


def _open_stream(sock: socket.socket) -> None:
    sock.sendall(_fluvio_frame(STREAM_FETCH, 1, StreamFetchRequest("idle", 0, 0, MAX_BYTES)))


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description="What Fluvio clients cost a broker.")
    parser.add_argument("--quick", action="store_true", help="only whether it runs")
    quick = parser.parse_args().quick
    run.hide_log_lines()
    show_conversion(20_000 if quick else 200_000)
    with TemporaryDirectory() as folder, FluvioBroker(Path(folder) / "broker") as broker:
        show_idle(broker, 100 if quick else 1_000)  # first: later it would use what others freed
        show_broker(broker, 2 if quick else 40)
        show_client(broker, 1_000 if quick else 20_000)


if __name__ == "__main__":
    main()
