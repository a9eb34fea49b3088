"""Which APIs this broker offers, and the steps of a request: read, authorize, prepare, answer.

Here: the handlers, by API key. The folder apis/ is the list: a new module there is a new API.
ApiVersions and the documents are made from it.
Next door: the handlers and what each is authorized for (apis/), the order of requests (session.py).
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, cast

from kafscale.gateways.kafka import apis
from kafscale.gateways.kafka.access import audited_changes, authorization
from kafscale.gateways.kafka.apis import (
    api_versions,
    consumer_group_heartbeat,
    fetch,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    produce,
    share_fetch,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
)
from kafscale.gateways.kafka.calls import client_errors, request_order, topic_names
from kafscale.gateways.kafka.calls.call import Answer, Call, CloseConnection, Deferred, Handler
from kafscale.turns import run_through
from kafscale.wire.kafka import codec
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.frame import RequestHeader
from kafscale.wire.kafka.schema import Message


def _load_handlers() -> tuple[Handler, ...]:
    names = (module.name for module in pkgutil.iter_modules(apis.__path__, f"{apis.__name__}."))
    handlers = (cast("Handler", importlib.import_module(name)) for name in names)
    return tuple(sorted(handlers, key=lambda api: api.API_KEY))


APIS: Final[tuple[Handler, ...]] = _load_handlers()

_BY_KEY: Final[dict[int, Handler]] = {api.API_KEY: api for api in APIS}

_PREPARE: Final[dict[int, Callable[[Call], Coroutine[Any, Any, None] | None]]] = {
    api.API_KEY: api.prepare
    for api in (
        produce,
        offset_commit,
        txn_offset_commit,
        join_group,
        heartbeat,
        leave_group,
        sync_group,
        consumer_group_heartbeat,
        share_group_heartbeat,
    )
}

NAMES: Final = {key: BY_KEY[key].name for key in _BY_KEY}

OFFERED: Final = tuple((api.API_KEY, api.VERSIONS) for api in APIS)


# By API key: the APIs whose earlier requests must be answered before a request begins.
WAITS_FOR: Final = request_order.list_waits({api.API_KEY: api.ORDER for api in APIS})

# Requests whose answers may be large.
READING: Final = frozenset({fetch.API_KEY, share_fetch.API_KEY})

# Requests that change nothing: they end when the client has left.
ONLY_READING: Final = READING | request_order.list_reads({api.API_KEY: api.ORDER for api in APIS})

# Requests that may wait for minutes until other clients act. What they bring is the group's by
# then, so their bytes are not in flight any more.
WAITING_FOR_MEMBERS: Final = frozenset({join_group.API_KEY, sync_group.API_KEY})


def read_body(request: RequestHeader, data: memoryview, call: Call) -> None:
    """Open the body of a request that is offered and put it into its call."""
    kind = BY_KEY[request.api_key].request
    call.message, end = codec.decode(kind, data, request.version, request.body_start)
    _note_rest(call, len(data) - end)
    if topic_names.may_differ(call, request.api_key):
        for _ in topic_names.resolve(call, request.api_key):
            pass  # a small frame has few rows


def read_body_in_steps(
    request: RequestHeader, data: memoryview, call: Call
) -> Generator[None, None, None]:
    """The same, with pauses between rows: a large frame may have very many."""
    kind = BY_KEY[request.api_key].request
    call.message, end = yield from codec.decode_in_steps(
        kind, data, request.version, request.body_start
    )
    _note_rest(call, len(data) - end)
    yield from topic_names.resolve(call, request.api_key)


def _note_rest(call: Call, size: int) -> None:
    if size:
        kind = type(call.message).__name__
        client_errors.note_ordinary(call, "trailing_bytes", f"{size} after {kind}")


def refuse(request: RequestHeader, call: Call) -> Message | None:
    """Refuse what is not offered: by closing the connection, or by ApiVersions' own error.

    A client that asks for a newer ApiVersions is told in version 0 which versions there are.
    """
    api = _BY_KEY.get(request.api_key)
    if api is None:
        raise CloseConnection(f"API {request.api_key} is not offered")
    if request.version in api.VERSIONS:
        return None
    if request.api_key == api_versions.API_KEY:
        client_errors.note_ordinary(call, "unsupported_version", f"ApiVersions {request.version}")
        return api_versions.unsupported(OFFERED)
    raise CloseConnection(f"version {request.version} of API {request.api_key} is not offered")


def writes(request: RequestHeader) -> bool:
    """Whether the request brings data to be stored."""
    return request.api_key == produce.API_KEY


def prepare(request: RequestHeader, call: Call) -> Coroutine[Any, Any, None] | None:
    """What must be done before the request can begin, if anything."""
    preparation = _PREPARE.get(request.api_key)
    return preparation(call) if preparation is not None else None


def authorize(request: RequestHeader, call: Call) -> Message | None:
    """Take out what the client may not do; gives the answer if that is the whole request."""
    refusal = authorization.authorize(_BY_KEY[request.api_key].REQUIREMENTS, call)
    if refusal is not None and call.spellings is not None:
        run_through(topic_names.restore(call, refusal))
    return refusal


def answer(request: RequestHeader, call: Call) -> Answer:
    """Begin to answer."""
    if request.api_key in audited_changes.CHANGES:
        audited_changes.watch(request.api_key, call)
    begun = _BY_KEY[request.api_key].answer(call)
    is_final = call.amendments is None and call.spellings is None
    return begun if is_final else _amended(begun, call)


def _amended(begun: Answer, call: Call) -> Answer:
    """The handler's answer together with what was not authorized, by the names that were asked."""
    if begun is None or isinstance(begun, Message):
        return run_through(_amend(begun, call))
    if isinstance(begun, Deferred):
        amended = Deferred()
        begun.then(lambda message: amended.give(run_through(_amend(message, call))))
        return amended
    return _amend_later(begun, call)


async def _amend_later(begun: Awaitable[Message | None], call: Call) -> Message | None:
    return await call.engine.turns.finish(_amend(await begun, call))


def _amend(message: Message | None, call: Call) -> Generator[None, None, Message | None]:
    if message is None and call.amendments is not None:
        raise CloseConnection("the client is not authorized, and wants no answer that says so")
    for amendment in call.amendments or ():
        amendment(message)
        yield
    if message is not None and call.spellings is not None:
        yield from topic_names.restore(call, message)
    return message
