"""The two verbs: a message becomes bytes, bytes become a message.

Here: encode() and decode(), both directions of every API; each (message, version) is compiled
at its first use and kept. A message may have very many rows, so that both also exist in steps: as
generators that pause between rows and return the result.
Next door: what is compiled (emit_decode.py, emit_encode.py), frames around messages (frame.py).
Never here: which versions a broker offers.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import cast

from kafscale.model.buffers import Buffer
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.kafka import emit_decode, emit_encode
from kafscale.wire.kafka.schema import Decoder, Encoder, M, Message


class UnknownVersion(ValueError):
    """The message has no such version."""


def encode(message: Message, version: int, out: bytearray | None = None) -> list[Buffer]:
    """The message as buffers to be sent one after the other; records are passed on, not copied.

    The first buffer is `out` itself, grown: a header may stand in it already.
    """
    encoder = message.encoders.get(version) or _encoder(type(message), version)
    return encoder(message, bytearray() if out is None else out)


def decode(kind: type[M], view: memoryview, version: int, at: int = 0) -> tuple[M, int]:
    """Read one message and tell where it ends; what follows is not looked at."""
    decoder = kind.decoders.get(version) or _decoder(kind, version)
    try:
        return cast("tuple[M, int]", decoder(view, at))
    except struct.error:
        raise MalformedMessage(f"{kind.__name__} v{version} is cut off") from None


def encode_in_steps(
    message: Message, version: int, out: bytearray
) -> Generator[None, None, list[Buffer]]:
    """The same as `encode`, with pauses between rows."""
    kind = type(message)
    encoder = kind.encoders_in_steps.get(version)
    if encoder is None:
        _known(kind, version)
        encoder = emit_encode.encoder_in_steps(kind, version)
        kind.encoders_in_steps[version] = encoder
    return encoder(message, out)


def decode_in_steps(
    kind: type[M], view: memoryview, version: int, at: int = 0
) -> Generator[None, None, tuple[M, int]]:
    """The same as `decode`, with pauses between rows."""
    decoder = kind.decoders_in_steps.get(version)
    if decoder is None:
        _known(kind, version)
        decoder = kind.decoders_in_steps[version] = emit_decode.decoder_in_steps(kind, version)
    try:
        return cast("tuple[M, int]", (yield from decoder(view, at)))
    except struct.error:
        raise MalformedMessage(f"{kind.__name__} v{version} is cut off") from None


def _encoder(kind: type[Message], version: int) -> Encoder:
    _known(kind, version)
    return kind.encoders.setdefault(version, emit_encode.encoder(kind, version))


def _decoder(kind: type[Message], version: int) -> Decoder:
    _known(kind, version)
    return kind.decoders.setdefault(version, emit_decode.decoder(kind, version))


def _known(kind: type[Message], version: int) -> None:
    if version not in kind.versions:
        raise UnknownVersion(f"{kind.__name__} has no version {version}")
