"""How a consumed record is printed: by a format string or as JSON. Pure; consume.py does the rest.

%t topic   %p partition   %o offset   %k key   %v value   %T timestamp in ms   %h headers
%% a percent sign, and \\n \\t \\r \\0 \\\\ as usual
"""

import base64
import re
from collections.abc import Callable
from typing import Final

import msgspec

from kafscale.admin.records.consuming import ConsumedRecord
from kafscale.cli.terminal.errors import UsageError
from kafscale.model.printable import printable_value

Format = Callable[[ConsumedRecord], bytes]

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_FIELDS: Final[dict[str, Format]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "T": lambda record: b"%d" % (-1 if record.timestamp_ms is None else record.timestamp_ms),
    "h": lambda record: b",".join(
        name.encode() + b"=" + (value or b"") for name, value in record.headers
    ),
}
_TOKEN: Final = re.compile(r"%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)


def compile_format(text: str, *, for_terminal: bool = False) -> Format:
    """Read a format string once, so that each record costs a few joins.

    For a terminal, control characters in a record are escaped: a terminal would obey them.
    """
    parts: list[bytes | Format] = []
    for field, escape, plain in _TOKEN.findall(text):
        if plain:
            parts.append(plain.encode("utf-8", "surrogateescape"))
        elif field == "%":
            parts.append(b"%")
        elif field in _FIELDS:
            shown = _FIELDS[field]
            parts.append(_escaping(shown) if for_terminal else shown)
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        else:
            known = " ".join(f"%{name}" for name in _FIELDS)
            raise UsageError(f"--format: expected {known} %% or \\n \\t \\r \\0, found {text!r}")
    return lambda record: b"".join(
        part if isinstance(part, bytes) else part(record) for part in parts
    )


def _escaping(field: Format) -> Format:
    return lambda record: printable_value(field(record))


def as_json(record: ConsumedRecord) -> bytes:
    """Write a record as one line; what is not UTF-8 goes under `..._base64` instead."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": [{"name": name, **_field("value", value)} for name, value in record.headers],
    }
    return msgspec.json.encode(fields) + b"\n"


def _field(name: str, raw: bytes | None) -> dict[str, str | None]:
    if raw is None:
        return {name: None}
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(raw).decode()}
