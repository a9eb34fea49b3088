"""A metrics page is read as it was written."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.admin.cost.metrics_page import MetricSample, fetch, parse_samples
from kafscale.admin.errors import AdminError
from kafscale.gateways.ops_http import OpsServer
from kafscale.model.metrics.meters import Registry

TEXT = st.text(st.characters(codec="utf-8"))


@given(TEXT, TEXT, st.integers(0, 2**53))
def test_any_label_is_read_back(one: str, other: str, count: int) -> None:
    registry = Registry()
    registry.counter("a_total", "A", ("one", "other")).labels(one, other).inc(count)
    registry.counter("b_total", "B")
    found = list(parse_samples(registry.render().decode(), {"a_total"}))
    assert found == [MetricSample("a_total", {"one": one, "other": other}, count)]


async def test_a_bare_address_means_the_usual_page() -> None:
    async def checks() -> dict[str, str | None]:
        return {}

    async def metrics() -> bytes:
        return b"a_total 1\n"

    server = OpsServer(metrics, checks)
    port = await server.start("127.0.0.1", 0)
    for url in (
        f"127.0.0.1:{port}",
        f"http://127.0.0.1:{port}",
        f"http://127.0.0.1:{port}/metrics",
    ):
        assert await asyncio.to_thread(fetch, url) == "a_total 1\n"
    with pytest.raises(AdminError, match="Not Found"):
        await asyncio.to_thread(fetch, f"http://127.0.0.1:{port}/other")
    await server.stop()


async def test_something_else_at_the_address_is_named() -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(AdminError, match=f"cannot read metrics from http://127.0.0.1:{port}"):
            await asyncio.to_thread(fetch, f"127.0.0.1:{port}")


def test_files_are_no_metrics_pages() -> None:
    with pytest.raises(AdminError, match="metrics are at"):
        fetch("file:///etc/passwd")
