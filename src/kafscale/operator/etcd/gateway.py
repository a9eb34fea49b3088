"""Questions to etcd over its HTTP gateway: members, health, snapshots.

Never here: keys and values; brokers read those by themselves.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from kafscale.model.errors import KafscaleError, MetadataUnavailable

_WITHIN_S: Final = 5.0
_MOST_LINE: Final = 4 << 20
_HASH_BYTES: Final = 32  # etcd appends the SHA-256 of a snapshot to it


class GatewayMissing(KafscaleError):
    """The member answers, and cannot be asked anything: waiting does not help."""


async def ask(http: aiohttp.ClientSession, endpoint: str, path: str, body: object) -> Any:
    """Ask one member. Raises MetadataUnavailable."""
    try:
        async with (
            asyncio.timeout(_WITHIN_S),
            http.post(f"{endpoint.rstrip('/')}{path}", json=body) as answer,
        ):
            text = await answer.text()
            if answer.status == HTTPStatus.NOT_FOUND:
                raise GatewayMissing(f"{endpoint}: this etcd was built without its HTTP gateway")
            if answer.status != HTTPStatus.OK:
                raise MetadataUnavailable(f"{endpoint}: {text.strip()[:300]}")
            return json.loads(text)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
        raise MetadataUnavailable(f"{endpoint}: {problem!r}") from problem


async def first_healthy(http: aiohttp.ClientSession, endpoints: Sequence[str]) -> str:
    """Give the first member that can read what the others agreed on. MetadataUnavailable."""
    problems = []
    for endpoint in endpoints:
        try:
            await ask(http, endpoint, "/v3/kv/range", {"key": base64.b64encode(b"x").decode()})
        except MetadataUnavailable as problem:
            problems.append(str(problem))
        else:
            return endpoint
    raise MetadataUnavailable("; ".join(problems) or "no endpoint is named")


async def read_snapshot(http: aiohttp.ClientSession, endpoint: str) -> bytes:
    """Read a snapshot whole and check it. Raises MetadataUnavailable."""
    found = bytearray()
    try:
        async with http.post(f"{endpoint.rstrip('/')}/v3/maintenance/snapshot", json={}) as answer:
            if answer.status != HTTPStatus.OK:
                raise MetadataUnavailable(f"{endpoint}: {(await answer.text())[:300]}")
            async for line in _lines(answer.content):
                said = json.loads(line)
                if "error" in said:
                    raise MetadataUnavailable(f"{endpoint}: {said['error']}")
                found += base64.b64decode(said["result"].get("blob", ""))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
        raise MetadataUnavailable(f"{endpoint}: {problem!r}") from problem
    check_snapshot(bytes(found))
    return bytes(found)


def check_snapshot(data: bytes) -> None:
    """Raise MetadataUnavailable unless the snapshot has the hash that etcd wrote behind it."""
    body, told = data[:-_HASH_BYTES], data[-_HASH_BYTES:]
    if not body or hashlib.sha256(body).digest() != told:
        raise MetadataUnavailable("the snapshot does not have the hash that etcd computed")


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    waiting = b""
    async for chunk in stream.iter_any():
        waiting += chunk
        *whole, waiting = waiting.split(b"\n")
        for line in whole:
            yield line
        if len(waiting) > _MOST_LINE:
            raise MetadataUnavailable("etcd sent a line that is too long")
    if waiting.strip():
        yield waiting
