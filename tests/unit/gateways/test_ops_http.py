"""The operators' page answers over real HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from kafscale.gateways.http import MOST_CONNECTIONS, MOST_HEAD_BYTES
from kafscale.gateways.ops_http import OpsServer
from kafscale.model.metrics.meters import CONTENT_TYPE, Registry
from tests.support.exposition import parse, series


def page(body: bytes) -> Callable[[], Awaitable[bytes]]:
    """The metrics as they are asked for."""

    async def show() -> bytes:
        return body

    return show


async def get(port: int, path: str) -> tuple[int, str, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, answer.headers["Content-Type"], await answer.read()


async def nothing_known() -> dict[str, str | None]:
    return {}


async def test_health_says_alive() -> None:
    async def checks() -> dict[str, str | None]:
        return {"store": "is away"}

    server = OpsServer(page(b""), checks)
    port = await server.start("127.0.0.1", 0)
    status, _, body = await get(port, "/health")
    assert (status, json.loads(body)) == (200, {"alive": True})
    await server.stop()


async def test_ready_follows_the_checks() -> None:
    said: dict[str, str | None] = {"store": "is away", "metadata": None, "lease": "lost"}

    async def checks() -> dict[str, str | None]:
        return said

    server = OpsServer(page(b""), checks)
    port = await server.start("127.0.0.1", 0)
    status, _, body = await get(port, "/ready")
    assert (status, json.loads(body)) == (
        503,
        {
            "ready": False,
            "reasons": ["store: is away", "lease: lost"],
            "checks": {"store": "is away", "metadata": "ok", "lease": "lost"},
        },
    )
    said.update(store=None, lease=None)
    status, _, body = await get(port, "/ready")
    assert (status, json.loads(body)) == (
        200,
        {
            "ready": True,
            "reasons": [],
            "checks": {"store": "ok", "metadata": "ok", "lease": "ok"},
        },
    )
    await server.stop()


async def test_metrics_are_served_as_prometheus_wants_them() -> None:
    registry = Registry()
    counter = registry.counter("a_total", "A", ("topic",)).labels('so "called"')

    async def metrics() -> bytes:
        return registry.render()

    server = OpsServer(metrics, nothing_known)
    port = await server.start("127.0.0.1", 0)
    for expected in (1, 2):
        counter.inc()
        status, content_type, body = await get(port, "/metrics")
        assert (status, content_type) == (200, CONTENT_TYPE)
        assert parse(body) == {series("a_total", topic='so "called"'): expected}
    await server.stop()


async def test_other_pages_and_verbs_are_refused() -> None:
    server = OpsServer(page(b""), nothing_known)
    port = await server.start("127.0.0.1", 0)
    assert (await get(port, "/"))[0] == 404
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}/health") as answer,
    ):
        assert answer.status == 405
    await server.stop()


async def test_a_taken_port_is_an_error_and_stopping_is_always_safe() -> None:
    first, second = (OpsServer(page(b""), nothing_known) for _ in range(2))
    port = await first.start("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        await second.start("127.0.0.1", port)
    await second.stop()
    await first.stop()
    with pytest.raises(OSError, match=str(port)):
        await asyncio.open_connection("127.0.0.1", port)


# -- clients that take more than their share -------------------------------------------------


async def connect(port: int, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    return reader, writer


async def read_all(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_a_page_is_answered_beside_many_half_requests() -> None:
    server = OpsServer(page(b"a 1\n"), nothing_known)
    port = await server.start("127.0.0.1", 0)
    halves = [await connect(port, b"GET /metr") for _ in range(3 * MOST_CONNECTIONS)]
    status, _, body = await get(port, "/metrics")
    assert (status, body) == (200, b"a 1\n")
    assert len(server) <= MOST_CONNECTIONS
    for _, writer in halves:
        writer.close()
    await server.stop()


async def test_a_request_that_does_not_arrive_ends_at_the_deadline() -> None:
    server = OpsServer(page(b""), nothing_known, deadline_s=0.05)
    port = await server.start("127.0.0.1", 0)
    reader, writer = await connect(port, b"GET /health HTTP/1.1\r\n")
    assert await read_all(reader) == b""
    assert len(server) == 0
    writer.close()
    await server.stop()


async def test_an_answer_that_is_not_read_ends_at_the_deadline() -> None:
    server = OpsServer(page(bytes(64 << 20)), nothing_known, deadline_s=0.2)
    port = await server.start("127.0.0.1", 0)
    _, writer = await connect(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(20):
        while len(server) == 0:
            await asyncio.sleep(0.01)
        while len(server):
            await asyncio.sleep(0.01)
    writer.close()
    await server.stop()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /health HTTP/1.1\r\nx: " + b"a" * MOST_HEAD_BYTES + b"\r\n\r\n", b"431"),
        (b"GET /health\r\n\r\n", b"400"),
        (b"\x00\x00\x00\x10 \xff HTTP/2.0\r\n\r\n", b"400"),
        (b"GET /health?a\nb HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /health?a=b HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /health HTTP/1.1\r\nhost: x\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", b"200"),
    ],
)
async def test_a_head_is_bounded_and_read_strictly(sent: bytes, status: bytes) -> None:
    server = OpsServer(page(b""), nothing_known)
    port = await server.start("127.0.0.1", 0)
    reader, writer = await connect(port, sent)
    assert (await read_all(reader)).split()[1] == status
    writer.close()
    await server.stop()


async def test_head_gives_the_length_without_the_body() -> None:
    server = OpsServer(page(b"a 1\n"), nothing_known)
    port = await server.start("127.0.0.1", 0)
    reader, writer = await connect(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    head, _, body = (await read_all(reader)).partition(b"\r\n\r\n")
    assert b"Content-Length: 4" in head
    assert body == b""
    writer.close()
    await server.stop()


async def test_a_page_that_fails_is_an_error_of_the_broker() -> None:
    def fail() -> bytes:
        raise RuntimeError("broken")

    server = OpsServer(fail, nothing_known)
    port = await server.start("127.0.0.1", 0)
    assert (await get(port, "/metrics"))[0] == 500
    await server.stop()
