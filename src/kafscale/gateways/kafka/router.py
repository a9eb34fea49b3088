"""Which APIs this broker offers, and the steps of a request: read, authorize, prepare, answer.

Here: the handlers, by API key. ApiVersions and the documents are made from this list.
Next door: the handlers (apis/), what each API is authorized for (authorization.py), the order of
requests (session.py).
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from kafscale.gateways.kafka import authorization, client_errors
from kafscale.gateways.kafka.apis import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_handshake,
    sync_group,
)
from kafscale.gateways.kafka.call import Answer, Call, CloseConnection, Deferred, Handler
from kafscale.wire.kafka import codec
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.frame import RequestHeader
from kafscale.wire.kafka.schema import Message

APIS: Final[tuple[Handler, ...]] = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    sasl_handshake,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    alter_configs,
    create_partitions,
    delete_groups,
    elect_leaders,
    offset_delete,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    incremental_alter_configs,
)

_BY_KEY: Final[dict[int, Handler]] = {api.API_KEY: api for api in APIS}

_PREPARE: Final[dict[int, Callable[[Call], Coroutine[Any, Any, None] | None]]] = {
    api.API_KEY: api.prepare
    for api in (produce, offset_commit, join_group, heartbeat, leave_group, sync_group)
}

NAMES: Final = {key: BY_KEY[key].name for key in _BY_KEY}

OFFERED: Final = tuple((api.API_KEY, api.VERSIONS) for api in APIS)


# Requests whose answers may be large, and that need not go on when the client has left.
READING: Final = frozenset({fetch.API_KEY})


def read_body(request: RequestHeader, data: memoryview, call: Call) -> None:
    """Open the body of a request that is offered and put it into its call."""
    kind = BY_KEY[request.api_key].request
    call.message, end = codec.decode(kind, data, request.version, request.body_start)
    if end != len(data):
        client_errors.note_ordinary(
            call, "trailing_bytes", f"{len(data) - end} after {kind.__name__}"
        )


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
    return authorization.authorize(request.api_key, call)


def answer(request: RequestHeader, call: Call) -> Answer:
    """Begin to answer."""
    begun = _BY_KEY[request.api_key].answer(call)
    return begun if call.amendments is None else _amended(begun, call)


def _amended(begun: Answer, call: Call) -> Answer:
    """The handler's answer together with what was not authorized."""
    if begun is None or isinstance(begun, Message):
        return _amend(begun, call)
    if isinstance(begun, Deferred):
        amended = Deferred()
        begun.then(lambda message: amended.give(_amend(message, call)))
        return amended
    return _amend_later(begun, call)


async def _amend_later(begun: Awaitable[Message | None], call: Call) -> Message | None:
    return _amend(await begun, call)


def _amend(message: Message | None, call: Call) -> Message | None:
    if message is None:
        raise CloseConnection("the client is not authorized, and wants no answer that says so")
    for amendment in call.amendments or ():
        amendment(message)
    return message
