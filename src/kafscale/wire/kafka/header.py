"""The header before every message: API, version, correlation id, client id.

Here: both headers, in both directions, and which version of them a message has.
Next door: the length in front (frame.py), the message behind (codec.py).
Never here: how to refuse an unknown API.

    request   api_key int16 | api_version int16 | correlation_id int32 | client_id
              then, before flexible versions of a message, tagged fields ("header v2")
    response  correlation_id int32
              then, before flexible versions except those of ApiVersions, tagged fields ("v1")

client_id keeps its two-byte length in both versions, so that the header of an ApiVersions
request from a newer client can be read.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafscale.wire import buffer
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.kafka import primitives
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.messages import api_versions
from kafscale.wire.kafka.schema import Message

_REQUEST: Final = struct.Struct(">hhi")
_RESPONSE: Final = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """A request whose body is still closed."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_start: int


def read_request_header(view: memoryview) -> RequestHeader:
    """Read the header at the start of a frame.

    An unknown API or version is no error: the caller decides how to refuse it. Its body
    is not readable, so where it starts does not matter.
    """
    try:
        api_key, version, correlation_id = _REQUEST.unpack_from(view)
    except struct.error:
        raise MalformedMessage(f"{len(view)} bytes are no request header") from None
    client_id, at = buffer.nullable_string(view, _REQUEST.size)
    api = BY_KEY.get(api_key)
    if api is not None and version in api.versions and api.flexible(version):
        at = buffer.skip_tags(view, at)
    return RequestHeader(api_key, version, correlation_id, client_id, at)


def request_header(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """What a client writes before its message."""
    start = _REQUEST.pack(message.api_key, version, correlation_id)
    tags = b"\0" if version >= message.flexible_from else b""
    return start + primitives.nullable_string(client_id) + tags


def response_is_tagged(kind: type[Message], version: int) -> bool:
    """Whether the response header ends in tagged fields.

    Never for ApiVersions: its client does not know yet which versions we speak.
    """
    return kind.api_key != api_versions.API_KEY and version >= kind.flexible_from


def response_header(message: Message, version: int, correlation_id: int) -> bytes:
    """What a broker writes before its message."""
    tags = b"\0" if response_is_tagged(type(message), version) else b""
    return _RESPONSE.pack(correlation_id) + tags


def read_response_header(kind: type[Message], version: int, view: memoryview) -> tuple[int, int]:
    """The correlation id, and where the message starts."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(view)
    except struct.error:
        raise MalformedMessage(f"{len(view)} bytes are no response header") from None
    at = _RESPONSE.size
    if response_is_tagged(kind, version):
        at = buffer.skip_tags(view, at)
    return correlation_id, at
