"""The issuer's keys by its address: fetched, fetched anew, kept while it is away."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, KeySet

from kafscale.engine.access.reread_file import MOST_BYTES
from kafscale.engine.access.signing_keys import KeysOfUrl
from kafscale.model.errors import AuthenticationFailed
from kafscale.testing.clock import ManualClock
from tests.support.certificates import Authority

pytestmark = pytest.mark.real_time
REFRESH_S = 3600.0


class Issuer:
    """Answers every request with `answer`, and counts them."""

    def __init__(self) -> None:
        self.answer = b""
        self.asked = 0
        self.port = 0

    def show(self, *names: str) -> None:
        """Show keys of these names from now on."""
        found = KeySet([ECKey.generate_key("P-256", {"kid": name}) for name in names])
        self.say(json.dumps(found.as_dict(private=False)).encode())

    def say(self, body: bytes, status: str = "200 OK", head: str = "") -> None:
        length = f"Content-Length: {len(body)}\r\n"
        self.answer = f"HTTP/1.1 {status}\r\n{length}{head}\r\n".encode() + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            writer.write(self.answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is not interested in the rest
        finally:
            writer.close()


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Issuer]:
    issuer = Issuer()
    server = await asyncio.start_server(issuer.serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        issuer.port = server.sockets[0].getsockname()[1]
        yield issuer


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with serving() as found:
        yield found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def keys(issuer: Issuer, clock: ManualClock) -> KeysOfUrl:
    return KeysOfUrl(f"http://127.0.0.1:{issuer.port}/jwks", None, REFRESH_S, clock)


def names(found: KeySet) -> list[str]:
    return [str(key.kid) for key in found.keys]


async def test_keys_are_fetched_once_and_again_when_they_are_old(
    issuer: Issuer, keys: KeysOfUrl, clock: ManualClock
) -> None:
    issuer.show("first")
    found = await asyncio.gather(*(keys.current() for _ in range(5)))
    assert [names(one) for one in found] == [["first"]] * 5
    assert issuer.asked == 1
    issuer.show("second")
    clock.advance_ms(REFRESH_S * 1000 - 1)
    assert names(await keys.current()) == ["first"]
    clock.advance_ms(1)
    assert names(await keys.current()) == ["second"]
    assert issuer.asked == 2


async def test_a_key_that_is_not_known_makes_the_broker_ask_but_not_often(
    issuer: Issuer, keys: KeysOfUrl, clock: ManualClock
) -> None:
    issuer.show("first")
    await keys.current()
    issuer.show("second")
    for _ in range(100):  # bad tokens, one after the other
        assert names(await keys.newer()) == ["first"]
    assert issuer.asked == 1
    clock.advance_ms(5000)
    for _ in range(100):
        assert names(await keys.newer()) == ["second"]
    assert issuer.asked == 2


async def test_the_last_keys_hold_while_the_issuer_says_nothing_useful(
    issuer: Issuer, keys: KeysOfUrl, clock: ManualClock
) -> None:
    issuer.say(b"busy", "503 Service Unavailable")
    with pytest.raises(AuthenticationFailed, match="not known yet"):
        await keys.current()
    clock.advance_ms(5000)
    issuer.show("first")
    assert names(await keys.current()) == ["first"]
    for answer in (b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"):
        issuer.answer = answer
        clock.advance_ms(REFRESH_S * 1000)
        assert names(await keys.current()) == ["first"]
    issuer.say(b'{"keys": 1}')
    clock.advance_ms(REFRESH_S * 1000)
    assert names(await keys.newer()) == ["first"]
    assert issuer.asked == 6


async def test_a_document_that_is_too_large_is_refused_and_not_read_to_its_end(
    issuer: Issuer, keys: KeysOfUrl, clock: ManualClock
) -> None:
    issuer.show("first")
    _, _, document = issuer.answer.partition(b"\r\n\r\n")
    issuer.say(document + b" " * (MOST_BYTES + 1 - len(document)))
    with pytest.raises(AuthenticationFailed):
        await keys.current()
    clock.advance_ms(5000)
    endless = f"HTTP/1.1 200 OK\r\nContent-Length: {1 << 50}\r\n\r\n".encode()
    issuer.answer = endless + b" " * (2 * MOST_BYTES)
    with pytest.raises(AuthenticationFailed):
        await keys.newer()
    assert issuer.asked == 2


async def test_a_document_that_comes_slowly_is_given_up(issuer: Issuer) -> None:
    class Hurrying(ManualClock):
        """Four seconds pass between two looks at it."""

        def elapsed_s(self) -> float:
            self.advance_ms(4000)
            return super().elapsed_s()

    issuer.show("first")
    keys = KeysOfUrl(f"http://127.0.0.1:{issuer.port}/jwks", None, REFRESH_S, Hurrying())
    assert names(await keys.current()) == ["first"]  # it came in one piece
    _, _, document = issuer.answer.partition(b"\r\n\r\n")
    issuer.say(document + b" " * (MOST_BYTES - len(document)))  # in many pieces
    late = KeysOfUrl(f"http://127.0.0.1:{issuer.port}/jwks", None, REFRESH_S, Hurrying())
    with pytest.raises(AuthenticationFailed):
        await late.current()


async def test_the_issuer_cannot_send_the_broker_elsewhere(
    issuer: Issuer, keys: KeysOfUrl, clock: ManualClock
) -> None:
    async with serving() as elsewhere:
        elsewhere.show("theirs")
        for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"):
            issuer.say(b"", status, f"Location: http://127.0.0.1:{elsewhere.port}/jwks\r\n")
            with pytest.raises(AuthenticationFailed):
                await keys.current()
            clock.advance_ms(5000)
        assert (issuer.asked, elsewhere.asked) == (5, 0)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/jwks", "data:,{}", ""])
def test_other_schemes_are_refused(url: str, clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="expected https"):
        KeysOfUrl(url, None, REFRESH_S, clock)


async def test_an_issuer_with_tls_must_be_the_one_that_the_authority_has_signed(
    tmp_path: Path, clock: ManualClock
) -> None:
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    own = authority.issue("issuer")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(own.certificate, own.key)
    async with serving(tls) as issuer:
        issuer.show("first")
        url = f"https://127.0.0.1:{issuer.port}/jwks"
        trusting = KeysOfUrl(url, str(authority.file), REFRESH_S, clock)
        assert names(await trusting.current()) == ["first"]
        for ca_file in (str(stranger.file), None):
            with pytest.raises(AuthenticationFailed):
                await KeysOfUrl(url, ca_file, REFRESH_S, clock).current()
        assert issuer.asked == 1
