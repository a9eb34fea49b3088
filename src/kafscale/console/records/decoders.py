"""Keys and values of records as text, for people and for filters.

Here: text, JSON, hex, numbers, UUIDs, Protobuf without its schema, the framing of schema
registries, and by it Avro and Protobuf. Numbers stay as they are written: JSON is shown as it is.
Next door: schemas (schemas.py), filters (filters.py).
"""

import base64
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kafscale.admin.records.scanning import ScannedRecord
from kafscale.console.answers.record_shapes import DecodedBytes, RecordHeader, RecordRow
from kafscale.console.records.schemas import FRAME, Schemas, SchemaUnusable

CUT_BYTES: Final = 64 << 10
_MOST_FIELDS: Final = 1000
_DEEPEST: Final = 8
_BY_SCHEMA: Final = ("auto", "registry", "avro", "protobuf")
_SIZES: Final = {"int32": 4, "int64": 8, "float": 4, "double": 8}
_FORMATS: Final = {"int32": ">i", "int64": ">q", "float": ">f", "double": ">d"}
_HIDDEN: Final = "hidden"
_JSON: Final = msgspec.json.Decoder()


class DecoderMisfit(Exception):
    """The bytes are not what the decoder expects."""


def decode(
    data: bytes | None, wanted: str, *, is_shown: bool = True, schemas: Schemas | None = None
) -> DecodedBytes:
    """Give a key or a value as text; what a decoder cannot read is shown as it would be by auto."""
    if data is None:
        return DecodedBytes(text=None, decoder="null", bytes=0)
    if not is_shown:
        return DecodedBytes(text=None, decoder=_HIDDEN, bytes=len(data))
    note: str | None = None
    head = data[:CUT_BYTES]
    name, text = "", ""
    if wanted in _BY_SCHEMA and schemas is not None and is_framed(data):
        try:
            return _by_schema(data, wanted, schemas)
        except SchemaUnusable as bad:
            note = str(bad)
    if wanted != "auto":
        try:
            name, text = wanted, _DECODERS[wanted](head)
        except DecoderMisfit as bad:
            note = note or f"not {wanted}: {bad}"
    if not name:
        name, text = _guess(head, len(data) > CUT_BYTES)
    return DecodedBytes(
        text=text, decoder=name, bytes=len(data), cut=len(data) > CUT_BYTES, note=note
    )


def is_framed(data: bytes) -> bool:
    """Whether it may be a value that names its schema by its number."""
    return len(data) >= FRAME and data[0] == 0


def _by_schema(data: bytes, wanted: str, schemas: Schemas) -> DecodedBytes:
    kind, value = schemas.read(data)
    if wanted not in ("auto", "registry", kind):
        raise SchemaUnusable(f"not {wanted}: its schema is {kind}")
    text = msgspec.json.encode(value).decode()
    cut = len(text) > CUT_BYTES
    return DecodedBytes(text=text[:CUT_BYTES], decoder=kind, bytes=len(data), cut=cut)


def row_of(
    record: ScannedRecord,
    key_as: str,
    value_as: str,
    *,
    is_shown: bool,
    schemas: Schemas | None = None,
) -> RecordRow:
    """A record as the page gets it."""
    return RecordRow(
        partition=record.partition,
        offset=str(record.offset),
        timestamp_ms=None if record.timestamp_ms is None else str(record.timestamp_ms),
        timestamp_type="append" if record.is_append_time else "create",
        key=decode(record.key, key_as, is_shown=is_shown, schemas=schemas),
        value=decode(record.value, value_as, is_shown=is_shown, schemas=schemas),
        headers=[_header(name, value) for name, value in record.headers] if is_shown else [],
        bytes=record.size,
    )


def _header(name: str, value: bytes | None) -> RecordHeader:
    if value is None:
        return RecordHeader(key=name, value=None, encoding="text")
    head = value[:CUT_BYTES]
    try:
        return RecordHeader(key=name, value=head.decode("utf-8"), encoding="text")
    except UnicodeDecodeError:
        text = base64.b64encode(head).decode("ascii")
        return RecordHeader(key=name, value=text, encoding="base64")


def scope_of(record: ScannedRecord, schemas: Schemas | None = None) -> Mapping[str, Any]:
    """A record as filters see it: JSON, or by its schema, else text, null where it is neither."""
    return {
        "key": _plain(record.key, schemas),
        "value": _plain(record.value, schemas),
        "headers": {name: _as_text(value) for name, value in record.headers},
        "offset": record.offset,
        "partition": record.partition,
        "timestamp": record.timestamp_ms,
        "size": record.size,
    }


def _plain(data: bytes | None, schemas: Schemas | None = None) -> Any:
    if data is None:
        return None
    if schemas is not None and is_framed(data):
        try:
            return schemas.read(data)[1]
        except SchemaUnusable:
            return None
    if data[:1] in b'{["-0123456789tfn' and data:
        try:
            return _JSON.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return _as_text(data)


def _as_text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _guess(head: bytes, is_cut: bool) -> tuple[str, str]:
    """What the bytes most likely are."""
    text = _text_of(head, is_cut)
    if text is not None:
        return ("json" if not is_cut and _is_json(head) else "text"), text
    if len(head) > FRAME and head[0] == 0:
        return "registry", _registry(head)
    return "hex", head.hex(" ")


def _text_of(head: bytes, is_cut: bool) -> str | None:
    """The bytes as text, unless they are none; a character that was cut is left out."""
    for missing in range(4 if is_cut else 1):
        try:
            text = head[: len(head) - missing].decode("utf-8")
        except UnicodeDecodeError:
            continue
        is_binary = any(char < " " and char not in "\t\n\r" for char in text)
        return None if is_binary else text
    return None


def _is_json(head: bytes) -> bool:
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        _JSON.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


# -- decoders that were asked for ----------------------------------------------------------------


def _text(head: bytes) -> str:
    return head.decode("utf-8", "replace")


def _json_text(head: bytes) -> str:
    if not _is_json(head):
        try:
            _JSON.decode(head)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as bad:
            raise DecoderMisfit(str(bad)) from bad
    return head.decode("utf-8")


def _numeric(name: str) -> Callable[[bytes], str]:
    def read(head: bytes) -> str:
        if len(head) != _SIZES[name]:
            raise DecoderMisfit(f"{len(head)} bytes, not {_SIZES[name]}")
        return str(struct.unpack(_FORMATS[name], head)[0])

    return read


def _uuid(head: bytes) -> str:
    if len(head) != 16:
        raise DecoderMisfit(f"{len(head)} bytes, not 16")
    return str(uuid.UUID(bytes=head))


def _registry(head: bytes) -> str:
    """The framing of schema registries: the schema's number, and what follows as far as known."""
    if not is_framed(head):
        raise DecoderMisfit("no framing of a schema registry")
    number = int.from_bytes(head[1:FRAME], "big")
    return f"schema {number}: {head[FRAME:].hex(' ')}"


def _avro(head: bytes) -> str:
    raise DecoderMisfit("it needs the number of its schema, and console.schemaRegistry")


def _protobuf(head: bytes) -> str:
    """Fields by number, as the wire format has them; without a schema names are not known."""
    fields = _fields(head, 0)
    if fields is None:
        raise DecoderMisfit("no Protobuf message")
    return msgspec.json.encode(fields).decode()


def _fields(data: bytes, depth: int) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    at = count = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        count += 1
        if at < 0 or not 0 < number < 1 << 29 or count > _MOST_FIELDS:
            return None
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
            value = str(value)  # 64 bits: a number would be rounded
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size].hex(), at + size
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = (data[at : at + size], at + size) if at >= 0 else (b"", -1)
        else:
            return None
        if at < 0 or at > len(data):
            return None
        if isinstance(value, bytes):
            value = _nested(value, depth)
        found.setdefault(str(number), []).append(value)
    return found


def _nested(data: bytes, depth: int) -> Any:
    text = _text_of(data, False)
    if text is not None:
        return text
    inner = _fields(data, depth + 1) if depth < _DEEPEST and data else None
    return inner if inner is not None else data.hex()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Give the number and the place behind it; -1 if there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if not 0 <= at < len(data):
            return 0, -1
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return 0, -1


_DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "text": _text,
    "json": _json_text,
    "hex": lambda head: head.hex(" "),
    "base64": lambda head: base64.b64encode(head).decode("ascii"),
    **{name: _numeric(name) for name in _SIZES},
    "uuid": _uuid,
    "registry": _registry,
    "avro": _avro,
    "protobuf": _protobuf,
}
