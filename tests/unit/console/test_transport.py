"""How browsers reach the console: by TLS, behind a proxy, from beyond loopback."""

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kafscale.console.entry.doorway import Doorway
from kafscale.console.entry.gate import PASSWORD, USERNAME, take_credentials
from kafscale.console.entry.static_files import StaticFiles
from kafscale.console.entry.wall import Wall, read_networks
from kafscale.console.routes import PREFIX
from kafscale.console.server import ConsoleServer, open_services
from kafscale.settings.config import Config
from kafscale.settings.loading import load
from kafscale.settings.values import ConfigError
from kafscale.system import SystemClock, SystemDice
from tests.support.certificates import Authority, Issued

Start = Callable[..., Awaitable[int]]
LOGIN = json.dumps({"username": "admin", "password": "right"})


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start consoles without brokers; gives their ports."""
    servers: list[ConsoleServer] = []

    async def start_one(files: Issued | None = None, **wall: Any) -> int:
        clock, dice = SystemClock(), SystemDice()
        services = open_services(Config(), "127.0.0.1:1", {}, clock, dice, "1", None, "no bucket")
        services.watcher.first.set()
        credentials = take_credentials({USERNAME: "admin", PASSWORD: "right"}, dice)
        doorway = Doorway(Wall("127.0.0.1", **wall), credentials, clock, dice)
        server = ConsoleServer(services, doorway, StaticFiles(tmp_path))
        servers.append(server)
        names = (str(files.certificate), str(files.key)) if files is not None else (None, None)
        return await server.start("127.0.0.1", 0, *names)

    yield start_one
    for server in servers:
        await server.stop()


async def log_in(
    url: str, headers: dict[str, str] | None = None, trust: ssl.SSLContext | bool = True
) -> str:
    """The cookie of a new session, as the browser is told it."""
    ours = {"X-Kafscale": "1", "Origin": url, "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession() as browser,
        browser.post(
            f"{url}/{PREFIX}session", data=LOGIN, headers=ours | (headers or {}), ssl=trust
        ) as answer,
    ):
        assert answer.status == 204
        return answer.headers["Set-Cookie"]


async def test_a_console_with_a_certificate_speaks_tls_and_its_cookie_is_secure(
    start: Start, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "authority")
    port = await start(authority.issue("console"), is_encrypted=True)
    trust = ssl.create_default_context(cafile=str(authority.file))
    assert "; Secure" in await log_in(f"https://127.0.0.1:{port}", trust=trust)


async def test_the_cookie_is_secure_where_a_trusted_proxy_speaks_tls_with_the_browser(
    start: Start,
) -> None:
    forwarded = {"X-Forwarded-Proto": "https"}
    trusted = await start(trusted_proxies=read_networks(["127.0.0.1"]))
    assert "; Secure" in await log_in(f"http://127.0.0.1:{trusted}", forwarded)
    other = await start()
    assert "; Secure" not in await log_in(f"http://127.0.0.1:{other}", forwarded)


async def test_parts_of_lists_have_a_largest_size(start: Start) -> None:
    url = f"http://127.0.0.1:{await start()}"
    cookie = (await log_in(url)).partition(";")[0]
    async with aiohttp.ClientSession(headers={"Cookie": cookie}) as browser:
        for path in ("topics?limit=1001", "groups?limit=0", "objects?key=x&limit=1000000"):
            async with browser.get(f"{url}/{PREFIX}{path}") as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (400, "invalid")


def test_beyond_loopback_a_console_needs_a_certificate_or_leave(tmp_path: Path) -> None:
    beyond: dict[str, object] = {"console.host": "0.0.0.0"}
    with pytest.raises(ConfigError, match="console"):
        load(None, {}, beyond)
    assert load(None, {}, {**beyond, "console.allowInsecureBind": True}).console.host == "0.0.0.0"
    own = Authority(tmp_path, "authority").issue("console")
    files = {"console.tls.certFile": str(own.certificate), "console.tls.keyFile": str(own.key)}
    assert load(None, {}, {**beyond, **files}).console.tls.cert_file == str(own.certificate)
