"""Requests about a topic whose partitions several brokers have.

Here: one request to another broker of the fleet, and one answer made of the answers about all
partitions. A change that was made in part can be sent again: what is there already, or gone
already, is no failure then.
Next door: which path is which verb (paths.py), the server that answers (gateways/http.py).
Never here: addresses that a client names. Brokers are asked where the cluster says that they are.
"""

import asyncio
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import orjson

from kafscale.gateways.http import HttpAnswer, HttpRequest, as_json
from kafscale.model.endpoints import Endpoint

AT_ONCE: Final = 8  # partitions
_WITHIN_S: Final = 20.0
_MOST_ANSWER_BYTES: Final = 4 << 20
# What a change finds that was made before: no failure unless all partitions say so.
_DONE_BEFORE: Final = {"PUT": HTTPStatus.CONFLICT, "DELETE": HTTPStatus.NOT_FOUND}


def path_of(request: HttpRequest) -> str:
    """The target of a request, as it is written in its first line."""
    path = "/".join(quote(one, safe="") for one in request.parts)
    return f"/{path}?{request.query}" if request.query else f"/{path}"


async def ask(endpoint: Endpoint, request: HttpRequest, tls: ssl.SSLContext | None) -> HttpAnswer:
    """Send a request on to another broker, with its client's login. Raises OSError.

    The other broker asks for the same proofs as this one.
    """
    async with asyncio.timeout(_WITHIN_S):
        reader, writer = await asyncio.open_connection(
            endpoint.host, endpoint.port, ssl=tls, limit=_MOST_ANSWER_BYTES
        )
        try:
            writer.write(_request_bytes(endpoint, request))
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            body = await reader.read(-1)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
            raise OSError(f"{endpoint} gives no answer: {problem}") from problem
        finally:
            writer.close()
    status = head.split(" ", 2)[1]
    if not status.isdecimal() or len(status) != 3:
        raise OSError(f"{endpoint} answers with the status {status!r}")
    return HttpAnswer(int(status), body)


def _request_bytes(endpoint: Endpoint, request: HttpRequest) -> bytes:
    lines = [
        f"{request.method} {path_of(request)} HTTP/1.1",
        f"Host: {endpoint}",
        "Content-Type: application/json",
        f"Content-Length: {len(request.body)}",
    ]
    if request.authorization:
        lines.append(f"Authorization: {request.authorization}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body


def one_answer(method: str, answers: Mapping[int, HttpAnswer]) -> HttpAnswer:
    """What a client hears of a change, by the answers about each partition."""
    before = _DONE_BEFORE.get(method)
    failed = {number: one for number, one in answers.items() if one.status >= HTTPStatus.OK + 100}
    if any(one.status != before for one in failed.values()):
        failed = {number: one for number, one in failed.items() if one.status != before}
    elif len(failed) < len(answers):
        return HttpAnswer(HTTPStatus.NO_CONTENT)
    number, first = next(iter(failed.items()))
    words = f"{len(failed)} of {len(answers)} partitions, the first is {number}: {_words(first)}"
    return as_json({"reason": words}, first.status)


def _words(answer: HttpAnswer) -> str:
    try:
        return str(orjson.loads(answer.body)["reason"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return HTTPStatus(answer.status).phrase


def sum_of_stats(answers: Mapping[int, HttpAnswer]) -> HttpAnswer:
    """The statistics of a topic, by those of its partitions."""
    total: dict[str, Any] = {"msgInCounter": 0, "storageSize": 0, "subscriptions": {}}
    for answer in answers.values():
        if answer.status != HTTPStatus.OK:
            return one_answer("GET", answers)
        one = orjson.loads(answer.body)
        total["msgInCounter"] += one["msgInCounter"]
        total["storageSize"] += one["storageSize"]
        for name, row in one["subscriptions"].items():
            known = total["subscriptions"].setdefault(name, {"msgBacklog": 0, "consumers": []})
            known["msgBacklog"] += row["msgBacklog"]
            known["consumers"] += row["consumers"]
    return as_json(total | {"metadata": {"partitions": len(answers)}})
