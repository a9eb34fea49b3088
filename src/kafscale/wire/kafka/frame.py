"""Frames: a length, a header, a message.

Here: taking the frame of a request apart, putting the frame of a response together, and the same
two for a client. A frame to be read comes without its length, which the caller has used to cut
it out of the stream; a frame to be sent has it in front.
Next door: headers (header.py), messages (codec.py).
Never here: sockets; how large a frame may be.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Final

from kafscale.model.buffers import Buffer
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.kafka import codec, header
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.header import RequestHeader
from kafscale.wire.kafka.schema import M, Message

_LENGTH: Final = struct.Struct(">i")
_ROOM_FOR_LENGTH: Final = bytes(_LENGTH.size)


def read_request(frame: memoryview) -> RequestHeader:
    """Read the header; the body stays closed. Unknown APIs and versions are no error here."""
    return header.read_request_header(frame)


def read_body(request: RequestHeader, frame: memoryview) -> Message:
    """Open the body of a request whose API and version are in the catalog."""
    kind = BY_KEY[request.api_key].request
    return codec.decode(kind, frame, request.version, request.body_start)[0]


def response_frame(correlation_id: int, message: Message, version: int) -> list[Buffer]:
    """A response, ready to be sent."""
    return _framed(header.response_header(message, version, correlation_id), message, version)


def response_frame_in_steps(
    correlation_id: int, message: Message, version: int
) -> Generator[None, None, list[Buffer]]:
    """The same, made in steps: a response may have very many rows."""
    first = _begun(header.response_header(message, version, correlation_id))
    return _measured(first, (yield from codec.encode_in_steps(message, version, first)))


def request_frame(
    correlation_id: int, message: Message, version: int, client_id: str | None
) -> list[Buffer]:
    """A request, ready to be sent by a client."""
    start = header.request_header(message, version, correlation_id, client_id)
    return _framed(start, message, version)


def read_response(frame: memoryview, kind: type[M], version: int) -> tuple[int, M]:
    """The correlation id of a response and its message."""
    correlation_id, at = header.read_response_header(kind, version, frame)
    return correlation_id, codec.decode(kind, frame, version, at)[0]


def _framed(start: bytes, message: Message, version: int) -> list[Buffer]:
    first = _begun(start)
    return _measured(first, codec.encode(message, version, first))


def _begun(start: bytes) -> bytearray:
    first = bytearray(_ROOM_FOR_LENGTH)
    first += start
    return first


def _measured(first: bytearray, buffers: list[Buffer]) -> list[Buffer]:
    """Write the length of the frame into its first buffer."""
    _LENGTH.pack_into(first, 0, sum(map(len, buffers)) - _LENGTH.size)
    return buffers


__all__ = [
    "MalformedMessage",
    "RequestHeader",
    "read_body",
    "read_request",
    "read_response",
    "request_frame",
    "response_frame",
    "response_frame_in_steps",
]
