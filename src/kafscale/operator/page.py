"""The operator's own page: /health, /ready, /metrics; and whatever else a process here shows.

Next door: what is counted (metrics.py).
"""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from kafscale.model.metrics.meters import CONTENT_TYPE

PageAnswer = Callable[[], Awaitable[web.Response]]


async def open_page(host: str, port: int, pages: Mapping[str, PageAnswer]) -> web.AppRunner:
    """Serve these pages until the runner is cleaned up. OSError if the port is taken."""
    app = web.Application(client_max_size=1 << 10)
    for path, answer in pages.items():
        app.router.add_get(path, _handler(answer))
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner


def _handler(answer: PageAnswer) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return await answer()

    return handle


async def alive() -> web.Response:
    """The process answers, so it lives."""
    return web.json_response({"alive": True})


def as_metrics(text: bytes) -> web.Response:
    """Series as Prometheus reads them."""
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})
