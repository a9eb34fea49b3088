"""What quotas cost: CPU time per request of the accounting, beside that of a whole request.

    python -m benchmarks.quotas [--quick]

A broker takes small produce requests, pipelined over one socket, and hands 100 kB out per fetch:
its CPU time per request is the least that such a request costs. Then the accounting of one produce
request and of one fetch is measured by itself, with no quota anywhere, with quotas of other
clients, and with one of this client.
"""

import argparse
import asyncio
import socket
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import psutil

from benchmarks import run
from kafscale.access.quotas import QuotaKey, entity_of
from kafscale.engine.access.quotas import Quotas
from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.gateways.kafka import throttling
from kafscale.gateways.kafka.calls.call import Call
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.model.metrics.meters import Registry
from kafscale.system import SystemClock
from kafscale.wire.kafka.frame import RequestHeader
from kafscale.wire.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafscale.wire.kafka.messages.produce import ProduceRequest, ProduceResponse
from tests.support import wire
from tests.support.broker import KafscaleProcess

_IN_FLIGHT = 64
_RECORD = bytes(1000)
_FETCH_BYTES = 100_000
_BOUND = 1e12  # never reached: what counts is the counting


def requests_us(requests: int) -> tuple[float, float]:
    """CPU time of a broker for a produce request with one record, and for a fetch of 100 kB."""
    records = wire.batch([_RECORD], timestamp_ms=run.NOW_MS)
    produce = wire.produce("quotas", 0, records, 1, 1)
    fetch = wire.fetch("quotas", 0, 0, 1, max_bytes=_FETCH_BYTES)
    with (
        KafscaleProcess() as broker,
        socket.create_connection(("127.0.0.1", broker.port)) as sock,
    ):
        child = psutil.Process(broker.process.pid)
        found = []
        for frame in (produce, fetch):
            _pipeline(sock, frame, min(requests, 2000))
            before = sum(child.cpu_times()[:2])
            _pipeline(sock, frame, requests)
            found.append((sum(child.cpu_times()[:2]) - before) / requests * 1e6)
    return found[0], found[1]


def _pipeline(sock: socket.socket, frame: bytes, requests: int) -> None:
    for number in range(requests + _IN_FLIGHT):
        if number >= _IN_FLIGHT:
            wire.read_answer(sock)
        if number < requests:
            sock.sendall(frame)


async def accounting_us(quotas: Quotas, times: int) -> tuple[float, float]:
    """CPU time of the accounting of a produce request and of a fetch."""
    metrics = BrokerMetrics(Registry())
    engine = SimpleNamespace(quotas=quotas, clock=SystemClock(), metrics=metrics)
    context: Any = SimpleNamespace(engine=engine)
    rows = [PartitionData(records=memoryview(bytes(_FETCH_BYTES)))]
    fetched = FetchResponse(responses=[FetchableTopicResponse("t", partitions=rows)])
    return (
        _timed(
            context, RequestHeader(0, 9, 1, "me", 0), ProduceRequest(), ProduceResponse(), times
        ),
        _timed(context, RequestHeader(1, 12, 1, "me", 0), FetchRequest(), fetched, times),
    )


def _timed(context: Any, request: RequestHeader, message: Any, answer: Any, times: int) -> float:
    work: Any = None
    call = Call(context, message, request.version, 0.0, work, {}, client_id="me")
    quotas = context.engine.quotas
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            if quotas.limits_clients:  # the session asks so, once per request and once per answer
                throttling.charge_request(request, call, 1100)
            if call.limits is not None:
                throttling.charge_answer(request, call, answer)
        best = min(best, time.process_time() - began)
    return best / times * 1e6


async def measure(requests: int, times: int) -> None:
    """Print one row per case."""
    whole_us, whole_fetch_us = requests_us(requests)
    print(f"a produce request of one record of 1 kB: {whole_us:.1f} us of CPU")
    print(f"a fetch of {_FETCH_BYTES // 1000} kB: {whole_fetch_us:.1f} us of CPU")
    with TemporaryDirectory() as folder:
        store = EmbeddedMetadataStore(Path(folder) / "metadata.db", "OFF", SystemClock())
        quotas = Quotas(store, SystemClock())
        for name, entity in (
            ("no quota anywhere", None),
            ("a quota of another client", entity_of([("client-id", "other")])),
            ("a quota of this client", entity_of([("client-id", "me")])),
        ):
            if entity is not None:
                both = {QuotaKey.PRODUCED_BYTES: _BOUND, QuotaKey.CONSUMED_BYTES: _BOUND}
                await quotas.alter(entity, both)
            produce_us, fetch_us = await accounting_us(quotas, times)
            shares = 100 * produce_us / whole_us, 100 * fetch_us / whole_fetch_us
            print(
                f"{name}: {produce_us:.2f} us ({shares[0]:.1f} %), "
                f"a fetch {fetch_us:.2f} us ({shares[1]:.1f} %)"
            )
        await store.aclose()


def main() -> None:
    """Parse arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    run.hide_log_lines()
    asyncio.run(measure(*((2000, 2000) if arguments.quick else (20_000, 100_000))))


if __name__ == "__main__":
    main()
