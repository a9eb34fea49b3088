"""A bucket's door for one broker: it looks at requests, and misbehaves when told to.

In this room: forwarding HTTP requests to the S3 server, faults before and after, and notes of
every object that was written or deleted through here.
Next door: wires that do not know what they carry (links.py), judging the notes (checker.py).
Never here: when to misbehave (nemesis.py).
"""

import asyncio
import hashlib
import random
import re
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from urllib.parse import unquote

import aiohttp
import obstore
from aiohttp import web
from obstore.store import S3Store
from yarl import URL

from kafscale.log.formats.producers import SEALER
from tests.faults.history import FAILED, OK, UNKNOWN, History, Removed, Stored
from tests.faults.links import LoopThread
from tests.support.ports import free_port
from tests.support.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_NOT_TOLD = {*_HOP, "content-encoding"}
_LARGEST_BYTES = 256 << 20
_NAMED = re.compile(rb"<Key>([^<]+)</Key>")
_SEGMENT_HEADER_BYTES, _SEGMENT_FOOTER_BYTES = 32, 16


@dataclass(frozen=True, slots=True)
class Manners:
    """How the door behaves. Shares are of requests, drawn one by one; the first hit counts."""

    down: bool = False  # connections are reset
    hang: bool = False  # nothing is answered until it heals
    errors: float = 0.0  # 500, not executed
    throttled: float = 0.0  # 503 SlowDown, not executed
    lost_answers: float = 0.0  # executed, then 500 or a reset
    late: float = 0.0  # a PUT is executed `late_s` later, whether or not the client still waits
    late_s: float = 0.0
    slow_s: float = 0.0  # every request waits this long first
    slow_put_s: float = 0.0  # every PUT does
    ignores_conditions: bool = False  # If-None-Match is not honoured, which no real store may do


POLITE = Manners()


def together(all_of: Iterable[Manners]) -> Manners:
    """All of these at once: the worst of each."""
    some = [POLITE, *all_of]
    return Manners(**{one.name: max(getattr(m, one.name) for m in some) for one in fields(Manners)})


class S3Proxy:
    """Between one broker and the S3 server."""

    def __init__(
        self, thread: LoopThread, server_port: int, broker: str, history: History, seed: int = 0
    ) -> None:
        self.port = free_port()
        self.manners = POLITE
        self.requests = 0
        self._thread = thread
        self._server = f"http://127.0.0.1:{server_port}"
        self._broker = broker
        self._history = history
        self._dice = random.Random(f"{seed} {broker}")
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.ServerRunner | None = None
        self._healed: asyncio.Event | None = None
        self._late: set[asyncio.Task[None]] = set()
        thread.run(self._begin())

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def behave(self, manners: Manners = POLITE) -> None:
        self._thread.run(self._behave(manners))

    def close(self) -> None:
        self._thread.run(self._end())

    async def _begin(self) -> None:
        self._healed = asyncio.Event()
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            connector=aiohttp.TCPConnector(limit=0),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        self._runner = web.ServerRunner(
            web.Server(self._answer, access_log=None), shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def _behave(self, manners: Manners) -> None:
        assert self._healed is not None
        self.manners = manners
        if not manners.hang:
            self._healed.set()
            self._healed = asyncio.Event()

    async def _end(self) -> None:
        assert self._session is not None
        assert self._runner is not None
        await self._behave(POLITE)
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
        await self._session.close()
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        manners, assured = self.manners, self._healed
        assert assured is not None
        begun_s = time.monotonic()
        if manners.down:
            return _reset(request)
        if manners.hang:
            await assured.wait()
        try:
            body = await _body(request)
        except ConnectionResetError:  # the client has given up meanwhile
            return _reset(request)
        if pause_s := manners.slow_s + (manners.slow_put_s if request.method == "PUT" else 0.0):
            await asyncio.sleep(pause_s)
        if self._hits(manners.errors):
            return _refusal(500, "InternalError")
        if self._hits(manners.throttled):
            return _refusal(503, "SlowDown")
        if request.method == "PUT" and self._hits(manners.late):
            return await self._execute_late(request, body, begun_s, manners.late_s)
        if self._hits(manners.lost_answers):
            await self._forward(request, body, begun_s, heard=False)
            return _reset(request) if self._hits(0.5) else _refusal(500, "InternalError")
        return await self._forward(request, body, begun_s)

    async def _execute_late(
        self, request: web.BaseRequest, body: bytes, begun_s: float, late_s: float
    ) -> web.StreamResponse:
        """The client's request is gone, as far as it can tell; the server gets it later."""

        async def later() -> None:
            await asyncio.sleep(late_s)
            await self._forward(request, body, begun_s, heard=False)

        task = asyncio.ensure_future(later())
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return _reset(request)

    async def _forward(
        self, request: web.BaseRequest, body: bytes, begun_s: float, heard: bool = True
    ) -> web.StreamResponse:
        assert self._session is not None
        outcome, status, headers, said = UNKNOWN, 502, {}, b""
        try:
            async with self._session.request(
                request.method,
                URL(self._server + request.raw_path, encoded=True),
                # The host is part of the signature: it stays what the client wrote.
                headers={k: v for k, v in request.headers.items() if k.lower() not in _HOP},
                data=body or None,
                allow_redirects=False,
            ) as answer:
                status, said = answer.status, await answer.read()
                headers = {k: v for k, v in answer.headers.items() if k.lower() not in _NOT_TOLD}
                if request.method == "HEAD" and "Content-Length" in answer.headers:
                    headers["Content-Length"] = answer.headers["Content-Length"]
                if status == 412 and self.manners.ignores_conditions:
                    await self._overwrite(_key(request.raw_path), body)
                    status, said, headers["ETag"] = 200, b"", '"taken"'
                if status < 300:
                    outcome = OK
                elif status < 500:
                    outcome = FAILED
        except (aiohttp.ClientError, OSError):
            return _reset(request)
        finally:
            self._note(request, body, begun_s, outcome)
        return web.Response(status=status, headers=headers, body=said)

    async def _overwrite(self, key: str, body: bytes) -> None:
        """With a signature of our own: the client's covers the header that is not honoured."""
        store = direct_store(self._server)
        await obstore.put_async(store, key, body, use_multipart=False)

    def _note(self, request: web.BaseRequest, body: bytes, begun_s: float, outcome: str) -> None:
        key = _key(request.raw_path)
        if request.method == "PUT" and key and not key.startswith("."):
            first, last = epochs(body) if key.endswith(".kfs") else (-1, -1)
            digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
            self._history.stored.append(
                Stored(
                    *(self._broker, key, digest, begun_s, time.monotonic(), outcome),
                    *(first, last),
                )
            )
        elif request.method == "DELETE" and key:
            self._history.removed.append(Removed(self._broker, key, begun_s))
        elif request.method == "POST" and "delete" in request.raw_path.partition("?")[2]:
            for name in _NAMED.findall(body):
                self._history.removed.append(Removed(self._broker, name.decode(), begun_s))

    def _hits(self, share: float) -> bool:
        return share > 0 and self._dice.random() < share


def direct_store(endpoint: str) -> S3Store:
    """The bucket itself, for requests that must not pass a door."""
    return S3Store(
        BUCKET,
        endpoint=endpoint,
        region="us-east-1",
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


async def _body(request: web.BaseRequest) -> bytes:
    parts = bytearray()
    async for part in request.content.iter_any():
        parts += part
        assert len(parts) <= _LARGEST_BYTES
    return bytes(parts)


def _key(raw_path: str) -> str:
    """The object a path names; empty for the bucket itself."""
    return unquote(raw_path.partition("?")[0]).lstrip("/").partition("/")[2]


def _reset(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _refusal(status: int, code: str) -> web.StreamResponse:
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>so told</Message></Error>"
    return web.Response(status=status, text=text, content_type="application/xml")


def epochs(segment: bytes) -> tuple[int, int]:
    """The leader epochs of a segment's first and last batch; -1 where there is none to read.

    Seals are left out: a job of any broker writes the last batch of a deleted topic's lane, in the
    epoch of the batch before it.
    """
    at, end = _SEGMENT_HEADER_BYTES, len(segment) - _SEGMENT_FOOTER_BYTES
    first = last = -1
    while at + 61 <= end and segment[at + 16] == 2:
        length, epoch = struct.unpack_from(">ii", segment, at + 8)
        (producer_id,) = struct.unpack_from(">q", segment, at + 43)
        if producer_id != SEALER:
            first, last = (epoch if first < 0 else first), epoch
        at += 12 + length
    return first, last
