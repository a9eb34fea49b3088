"""A server that writes down what a bucket's client sends, and answers what it is told to.

It keeps no objects: every put succeeds, every read gives BODY, unless `answers` says otherwise.
"""

import re
from collections import deque
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import parse_qsl

from aiohttp import web

BODY = b"0123456789"
_DATE = "Mon, 16 Nov 2026 02:55:00 GMT"
_LISTING = (
    "<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
)
_UPLOAD = "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>"
_COMPLETED = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"


class Seen(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    connection: tuple[str, int]


class RecordingS3:
    """Use with `async with`; `endpoint` is where it listens."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answers: deque[tuple[int, str]] = deque()  # given first, one per request
        self._runner: web.AppRunner | None = None
        self.endpoint = ""

    async def __aenter__(self) -> Self:
        page = web.Application(client_max_size=1 << 30)
        page.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(page, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.endpoint = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        assert request.transport is not None
        seen = Seen(
            request.method,
            request.path,
            dict(parse_qsl(request.query_string, keep_blank_values=True)),
            {name.lower(): value for name, value in request.headers.items()},
            body,
            request.transport.get_extra_info("peername"),
        )
        self.seen.append(seen)
        if self.answers:
            status, text = self.answers.popleft()
            return web.Response(status=status, text=text)
        return _usual(seen)


def _usual(seen: Seen) -> web.Response:
    headers = {"ETag": '"e"', "Last-Modified": _DATE}
    if "list-type" in seen.query:
        return web.Response(text=_LISTING)
    if seen.method == "POST" and "delete" in seen.query:
        gone = "".join(
            f"<Deleted><Key>{key}</Key></Deleted>"
            for key in re.findall(r"<Key>([^<]*)</Key>", seen.body.decode())
        )
        return web.Response(text=f"<DeleteResult>{gone}</DeleteResult>")
    if seen.method == "POST":
        return web.Response(text=_UPLOAD if "uploads" in seen.query else _COMPLETED)
    if seen.method == "GET" and "range" in seen.headers:
        first, last = (int(end) for end in seen.headers["range"][len("bytes=") :].split("-"))
        data = BODY[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{first + len(data) - 1}/{len(BODY)}"
        return web.Response(status=206, body=data, headers=headers)
    if seen.method == "PUT":
        return web.Response(
            status=201 if "x-ms-blob-type" in seen.headers else 200, headers=headers
        )
    return web.Response(body=BODY, headers=headers)
