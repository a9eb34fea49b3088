"""Every route through the wall, over a real socket; no broker is there to be asked."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from kafscale.console.app import ConsoleApp
from kafscale.console.entry.doorway import Doorway
from kafscale.console.entry.gate import PASSWORD, USERNAME, take_credentials
from kafscale.console.entry.static_files import StaticFiles
from kafscale.console.entry.wall import Wall
from kafscale.console.routes import PREFIX, ROUTES, Route
from kafscale.console.server import load_pages, open_services
from kafscale.settings.config import Config
from kafscale.settings.sections import ConsoleSection
from kafscale.system import SystemClock, SystemDice

Client = TestClient[Any, Any]
Open = Callable[..., Awaitable[Client]]
CREDENTIALS = {USERNAME: "admin", PASSWORD: "right"}
PAGE = b'<!doctype html><html><head><base href="/"><title>x</title></head><body></body></html>'


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Open consoles; each is closed at the end."""
    clients: list[Client] = []
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(PAGE)
    (tmp_path / "assets" / "main-AbCd1234.js").write_bytes(b"1")

    async def open_one(
        environment: dict[str, str] | None = None, files: Path = tmp_path, **console: Any
    ) -> Client:
        clock, dice = SystemClock(), SystemDice()
        config = Config(console=ConsoleSection(**console))
        services = open_services(
            config, "127.0.0.1:1", {}, clock, dice, "1.2.3", None, "there is no bucket in tests"
        )
        services.watcher.first.set()  # it does not run: there is nothing to watch
        wall = Wall("127.0.0.1", base_path=config.console.base_path)
        chosen = CREDENTIALS if environment is None else environment
        doorway = Doorway(wall, take_credentials(dict(chosen), dice), clock, dice)
        app = ConsoleApp(services, doorway, load_pages, StaticFiles(files)).build()
        client: Client = TestClient(TestServer(app, host="127.0.0.1"))
        await client.start_server()
        clients.append(client)
        return client

    yield open_one
    for client in clients:
        await client.close()


def ours(client: Client) -> dict[str, str]:
    return {
        "X-Kafscale": "1",
        "Origin": f"http://127.0.0.1:{client.port}",
        "Content-Type": "application/json",
    }


async def log_in(client: Client, password: str = "right") -> int:
    body = msgspec.json.encode({"username": "admin", "password": password})
    url = f"/{PREFIX}session"
    async with client.post(url, data=body, headers=ours(client)) as answer:
        return answer.status


async def ask(
    client: Client, route: Route, headers: dict[str, str], body: bytes
) -> tuple[int, str]:
    path = re.sub(r"{\w+}", "x", route.path)
    method = client.request(route.method, f"/{PREFIX}{path}", headers=headers, data=body)
    async with method as answer:
        raw = await answer.read()
        code = msgspec.json.decode(raw)["error"]["code"] if answer.status >= 400 else ""
        assert "Server" not in answer.headers
        assert answer.headers["Cache-Control"] == "no-store"
        assert "access-control-allow-origin" not in {name.lower() for name in answer.headers}
        return answer.status, code


CLOSED = [route for route in ROUTES if not route.is_open]
UNSAFE = [route for route in ROUTES if route.method not in ("GET", "HEAD")]
CHANGES = [route for route in ROUTES if route.effect == "changes"]


async def test_without_a_login_every_route_but_two_refuses(opened: Open) -> None:
    client = await opened()
    for route in CLOSED:
        assert await ask(client, route, ours(client), b"{}") == (401, "not_logged_in"), route.name


@pytest.mark.parametrize(
    "environment", [{}, {USERNAME: "admin"}, {PASSWORD: "right"}, {**CREDENTIALS, USERNAME: " "}]
)
async def test_without_both_variables_every_route_says_disabled(
    opened: Open, environment: dict[str, str]
) -> None:
    client = await opened(environment)
    for route in ROUTES:
        if route.name != "get_session":
            assert await ask(client, route, ours(client), b"{}") == (403, "disabled"), route.name
    async with client.get(f"/{PREFIX}session") as answer:
        said = await answer.json()
    assert (said["enabled"], said["authenticated"]) == (False, False)
    assert said["requires"] == [USERNAME, PASSWORD]


async def test_without_a_login_the_session_tells_little(opened: Open) -> None:
    client = await opened()
    async with client.get(f"/{PREFIX}session") as answer:
        said = await answer.json()
    known = {name for name, value in said.items() if value not in (None, [])}
    assert known == {"enabled", "authenticated", "version"}


@pytest.mark.parametrize(
    "spoilt",
    [
        {"X-Kafscale": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
async def test_what_another_site_sends_is_refused(opened: Open, spoilt: dict[str, str]) -> None:
    client = await opened()
    assert await log_in(client) == 204
    for route in UNSAFE:
        found = await ask(client, route, {**ours(client), **spoilt}, b"{}")
        assert found == (403, "cross_site"), route.name


async def test_a_foreign_host_is_refused_by_every_route(opened: Open) -> None:
    client = await opened()
    assert await log_in(client) == 204
    for route in ROUTES:
        found = await ask(client, route, {**ours(client), "Host": "evil.example"}, b"{}")
        assert found == (421, "host"), route.name
    async with client.get("/", headers={"Host": "evil.example"}) as answer:
        assert answer.status == 421


async def test_a_read_only_console_refuses_every_change(opened: Open) -> None:
    client = await opened(read_only=True)
    assert await log_in(client) == 204
    for route in CHANGES:
        assert await ask(client, route, ours(client), b"{}") == (403, "read_only"), route.name


async def test_hidden_values_are_hidden_from_searches_and_downloads(opened: Open) -> None:
    client = await opened(show_values=False)
    assert await log_in(client) == 204
    by_name = {route.name: route for route in ROUTES}
    for name, body in (("search_records", b'{"find":"x"}'), ("tail_records", b'{"filter":"true"}')):
        assert await ask(client, by_name[name], ours(client), body) == (403, "hidden")
    url = f"/{PREFIX}topics/t/records?partition=0&offset=0"
    async with client.get(url) as answer:
        assert answer.status == 403


async def test_a_wrong_password_and_then_many(opened: Open) -> None:
    client = await opened()
    assert [await log_in(client, "wrong") for _ in range(5)] == [401] * 5
    body = msgspec.json.encode({"username": "admin", "password": "right"})
    async with client.post(f"/{PREFIX}session", data=body, headers=ours(client)) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")


async def test_the_cookie_is_safe_and_new_with_every_login(opened: Open) -> None:
    client = await opened(base_path="/kafscale/")
    tokens = []
    for _ in range(2):
        body = msgspec.json.encode({"username": "admin", "password": "right"})
        url = f"/{PREFIX}session"
        async with client.post(url, data=body, headers=ours(client)) as answer:
            cookie = answer.cookies["kafscale_session"]
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        assert cookie["path"] == "/kafscale/"
        tokens.append(cookie.value)
    assert tokens[0] != tokens[1]


async def test_logging_out_ends_the_session_in_the_server(opened: Open) -> None:
    client = await opened()
    assert await log_in(client) == 204
    token = next(one.value for one in client.session.cookie_jar)
    async with client.delete(f"/{PREFIX}session", headers=ours(client)) as answer:
        assert answer.status == 204
    headers = {"Cookie": f"kafscale_session={token}"}
    async with client.get(f"/{PREFIX}activity", headers=headers) as answer:
        assert answer.status == 401


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"\0", "invalid"),
        (b"", "invalid"),
        (b"[]", "invalid"),
        (b'{"name": 1}', "invalid"),
        (b'{"name": "x", "unknown": 1}', "invalid"),
        (b"[" * 5000, "invalid"),
        (b'{"name": "' + b"x" * (65 << 10) + b'"}', "too_large"),
    ],
)
async def test_a_bad_body_is_refused(opened: Open, body: bytes, code: str) -> None:
    client = await opened()
    assert await log_in(client) == 204
    route = next(route for route in ROUTES if route.name == "create_topic")
    assert (await ask(client, route, ours(client), body))[1] == code


async def test_a_body_of_another_type_is_refused(opened: Open) -> None:
    client = await opened()
    assert await log_in(client) == 204
    headers = {**ours(client), "Content-Type": "text/plain"}
    route = next(route for route in ROUTES if route.name == "create_topic")
    assert await ask(client, route, headers, b"{}") == (415, "media_type")


async def test_changes_and_refusals_are_in_the_activity(opened: Open) -> None:
    client = await opened(read_only=True)
    await log_in(client, "wrong")
    await log_in(client)
    url = f"/{PREFIX}topics/orders"
    async with client.delete(url, headers=ours(client), data=b'{"confirm":"orders"}') as answer:
        assert answer.status == 403
    async with client.get(f"/{PREFIX}activity") as answer:
        text = await answer.text()
    rows = msgspec.json.decode(text)["items"]
    assert [(row["action"], row["outcome"], row["resource"]) for row in rows] == [
        ("delete_topic", "read_only", "orders"),
        ("log_in", "ok", ""),
        ("log_in", "wrong", ""),
    ]
    assert "right" not in text


POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def test_every_answer_carries_the_policy(opened: Open) -> None:
    client = await opened()
    for path in ("/", "/assets/main-AbCd1234.js", "/health", f"/{PREFIX}topics", "/nothing.js"):
        async with client.get(path) as answer:
            assert set(answer.headers["Content-Security-Policy"].split("; ")) == POLICY
            assert HEADERS.items() <= dict(answer.headers).items()


async def test_files_of_the_page_are_packed_for_browsers_that_take_gzip(
    opened: Open, tmp_path: Path
) -> None:
    script = b"let a = 1;" * 200
    (tmp_path / "assets" / "large-AbCd1234.js").write_bytes(script)
    client = await opened()
    seen = {}
    for accepted in ("gzip, br", "identity"):
        headers = {"Accept-Encoding": accepted}
        async with client.get("/assets/large-AbCd1234.js", headers=headers) as answer:
            assert await answer.read() == script  # the client unpacks it
            assert answer.headers["Vary"] == "Accept-Encoding"
            kind = answer.headers.get("Content-Encoding")
            seen[kind] = int(answer.headers["Content-Length"]), answer.headers["ETag"]
    assert seen["gzip"][0] < seen[None][0] == len(script)
    assert seen["gzip"][1] != seen[None][1]


def test_every_route_has_a_page_or_is_the_servers_own() -> None:
    own = {"get_session", "get_openapi", "log_in", "log_out"}
    assert load_pages().keys() | own == {route.name for route in ROUTES}
    assert not load_pages().keys() & own


def test_a_console_without_visitors_has_no_codecs_of_records_in_memory() -> None:
    code = "import sys, kafscale.cli.console.console; print(*sys.modules)"
    run = [sys.executable, "-c", code]
    loaded = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)
    assert not {"cramjam", "lz4", "kafscale.console.pages", "uvloop"} & set(loaded.stdout.split())


async def test_the_page_has_the_path_that_the_browser_sees(opened: Open) -> None:
    client = await opened(base_path="/kafscale/")
    for path in ("/", "/topics/orders.v1.js", "/index.html"):
        async with client.get(path) as answer:
            text = await answer.text()
            assert '<base href="/kafscale/">' in text
            assert answer.headers["Cache-Control"] == "no-cache"
    async with client.get("/assets/main-AbCd1234.js") as answer:
        assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.parametrize(
    "path", ["/assets/../../pyproject.toml", "/assets/%2e%2e/%2e%2e/x.py", "/assets//etc/passwd"]
)
async def test_no_file_outside_the_folder_is_handed_out(opened: Open, path: str) -> None:
    client = await opened()
    async with client.get(path) as answer:
        body = await answer.read()
    assert answer.status == 404 or body.startswith(b"<!doctype html>")


async def test_without_a_built_page_a_page_without_scripts_says_so(
    opened: Open, tmp_path: Path
) -> None:
    client = await opened(files=tmp_path / "nothing")
    async with client.get("/") as answer:
        text = await answer.text()
    assert "Kafscale Console" in text
    assert "<script" not in text
