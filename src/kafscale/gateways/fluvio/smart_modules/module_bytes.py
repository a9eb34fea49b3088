"""What a SmartModule is given and what it gives, as bytes.

A module reads its input at a version of Fluvio's encoding. The one here is the newest that modules
know. Records stand in both as Fluvio's clients send them: a count of four bytes, then the records.
Here: writing inputs and reading outputs. An output comes from a program that nothing is known of:
every length is checked.
Next door: running modules (module_instances.py), cutting records into runs (chains.py).
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.fluvio.bytes_in import BytesIn
from kafscale.wire.fluvio.bytes_out import BytesOut

VERSION: Final = 22
_OFFSET: Final = struct.Struct(">q")
_SIZE: Final = struct.Struct(">I")
_NO_PARAMETERS_NO_LOOK_BACK: Final = b"\x00\x00\x00"
_NO_JOINED_RECORD: Final = b"\x00\x00\x00\x00"
_KIND: Final = struct.Struct(">B")

# Why a module refuses a record: in words, its offset, the kind of module, its key and value.
RecordError = tuple[str, int, int, bytes | None, bytes]


class ModuleOutput(NamedTuple):
    """What a module gave: records with their count in front, where they are, and an error."""

    records: bytes
    deltas: list[int]  # the offset delta of every record
    error: RecordError | None
    accumulator: bytes = b""


def write_init(parameters: Mapping[str, str]) -> bytes:
    """The parameters of a module."""
    out = BytesOut()
    out.short_count(len(parameters))
    for name, value in sorted(parameters.items()):
        out.string(name)
        out.string(value)
    out.flag(False)  # no look-back
    return bytes(out.out)


def write_input(base_offset: int, base_ms: int, records: bytes) -> bytes:
    """Records for a module; `records` begins with their count."""
    return b"".join(
        (
            _OFFSET.pack(base_offset),
            _SIZE.pack(len(records)),
            records,
            _NO_PARAMETERS_NO_LOOK_BACK,
            _NO_JOINED_RECORD,
            _OFFSET.pack(base_ms),
        )
    )


def write_accumulator(accumulator: bytes) -> bytes:
    """What follows the records of an aggregate."""
    return _SIZE.pack(len(accumulator)) + accumulator


def read_output(data: bytes, *, has_accumulator: bool) -> ModuleOutput:
    """What a module gave. Raises MalformedMessage."""
    source = BytesIn(memoryview(data))
    count = source.count(1)
    deltas = [_read_record(source) for _ in range(count)]
    records = data[: source.at]
    error = _read_error(source) if source.flag() else None
    accumulator = bytes(source.slice()) if has_accumulator else b""
    return ModuleOutput(records, deltas, error, accumulator)


def read_init_error(data: bytes) -> str:
    """Why a module does not begin; an empty text if it does not say it."""
    try:
        return BytesIn(memoryview(data)).string()
    except MalformedMessage:
        return ""


def _read_record(source: BytesIn) -> int:
    """Go behind a record; gives its offset delta."""
    size = source.varint()
    end = source.at + size
    source.at += 1  # attributes
    source.varint()  # time delta
    delta = source.varint()
    if source.flag():
        source.data()
    source.data()
    source.varint()
    if source.at != end:
        raise MalformedMessage(f"a record ends at byte {source.at}, not at {end}")
    return delta


def _read_error(source: BytesIn) -> RecordError:
    hint = source.string()
    offset = source.unpack(_OFFSET)
    kind = source.unpack(_KIND)
    key = source.data() if source.flag() else None
    return hint, offset, kind, key, source.data()
