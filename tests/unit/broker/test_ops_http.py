"""The operators' page answers over real HTTP."""

import asyncio
import json

import aiohttp
import pytest

from kafscale.broker.ops_http import OpsServer
from kafscale.model.meters import CONTENT_TYPE, Registry
from tests.support.exposition import parse, series


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

    server = OpsServer(lambda: b"", checks)
    port = await server.start("127.0.0.1", 0)
    status, _, body = await get(port, "/health")
    assert (status, json.loads(body)) == (200, {"alive": True})
    await server.stop()


async def test_ready_follows_the_checks() -> None:
    said: dict[str, str | None] = {"store": "is away", "metadata": None, "lease": "lost"}

    async def checks() -> dict[str, str | None]:
        return said

    server = OpsServer(lambda: b"", checks)
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
    server = OpsServer(registry.render, nothing_known)
    port = await server.start("127.0.0.1", 0)
    for expected in (1, 2):
        counter.inc()
        status, content_type, body = await get(port, "/metrics")
        assert (status, content_type) == (200, CONTENT_TYPE)
        assert parse(body) == {series("a_total", topic='so "called"'): expected}
    await server.stop()


async def test_other_pages_and_verbs_are_refused() -> None:
    server = OpsServer(lambda: b"", nothing_known)
    port = await server.start("127.0.0.1", 0)
    assert (await get(port, "/"))[0] == 404
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}/health") as answer,
    ):
        assert answer.status == 405
    await server.stop()


async def test_a_taken_port_is_an_error_and_stopping_is_always_safe() -> None:
    first, second = (OpsServer(lambda: b"", nothing_known) for _ in range(2))
    port = await first.start("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        await second.start("127.0.0.1", port)
    await second.stop()
    await first.stop()
    with pytest.raises(OSError, match=str(port)):
        await asyncio.open_connection("127.0.0.1", port)
