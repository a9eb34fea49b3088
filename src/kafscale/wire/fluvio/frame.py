"""Frames of the Fluvio protocol: a length, a header, a message.

Here: the header of a request, the frame of a response, and the same two for a client. A frame to be
read comes without its length; a frame to be sent has it in front.
Next door: messages (schema.py, messages/).
Never here: sockets; how large a frame may be; which APIs are offered.
"""

import struct
from typing import Final, NamedTuple

from kafscale.model.buffers import Buffer
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.fluvio.bytes_in import BytesIn
from kafscale.wire.fluvio.bytes_out import BytesOut
from kafscale.wire.fluvio.schema import FluvioTable, encode

_LENGTH: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">Hhi")
_RESPONSE: Final = struct.Struct(">i")


class FluvioRequest(NamedTuple):
    """The header of a request. A response repeats the correlation id, a stream many times."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    body_start: int


def read_request(frame: memoryview) -> FluvioRequest:
    """Read the header; the body stays closed."""
    try:
        api_key, version, correlation_id = _REQUEST.unpack_from(frame)
    except struct.error:
        raise MalformedMessage(f"{len(frame)} bytes are no request header") from None
    rest = BytesIn(frame, _REQUEST.size)
    client_id = rest.string()
    return FluvioRequest(api_key, version, correlation_id, client_id, rest.at)


def response_frame(correlation_id: int, message: FluvioTable, version: int) -> list[Buffer]:
    """A response, ready to be sent."""
    first = bytearray(_LENGTH.size)
    first += _RESPONSE.pack(correlation_id)
    return _measured(first, encode(message, version, first))


def request_frame(
    api_key: int, version: int, correlation_id: int, client_id: str, message: FluvioTable
) -> list[Buffer]:
    """A request, ready to be sent by a client."""
    head = BytesOut(bytearray(_LENGTH.size))
    head.out += _REQUEST.pack(api_key, version, correlation_id)
    head.string(client_id)
    return _measured(head.out, encode(message, version, head.out))


def _measured(first: bytearray, buffers: list[Buffer]) -> list[Buffer]:
    """Write the length of the frame into its first buffer."""
    _LENGTH.pack_into(first, 0, sum(map(len, buffers)) - _LENGTH.size)
    return buffers
