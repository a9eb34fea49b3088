"""What of a subscription outlives its broker: how far it has come, and the spans beyond.

Here: the snapshot, and its spans as bytes. For each span there are two varints: the distance from
the end of the span before it, and its length.
Next door: where it is written (engine/subscriptions/cursors.py).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafscale.model.errors import CorruptObject, InvalidRecord
from kafscale.records import varint
from kafscale.subscriptions.events import OffsetSpan


class CursorSnapshot(NamedTuple):
    """What is acknowledged."""

    acknowledged_to: int
    spans: Sequence[OffsetSpan] = ()


def encode_spans(to: int, spans: Iterable[OffsetSpan]) -> bytes:
    """The bytes of spans that lie beyond `to`."""
    out = bytearray()
    for first, after in spans:
        out += varint.encode(first - to)
        out += varint.encode(after - first)
        to = after
    return bytes(out)


def decode_spans(to: int, data: bytes) -> list[OffsetSpan]:
    """The spans that these bytes were made from. Raises CorruptObject."""
    spans: list[OffsetSpan] = []
    at = 0
    try:
        while at < len(data):
            distance, at = varint.read(data, at, len(data), varint.MAX_LONG_BYTES)
            length, at = varint.read(data, at, len(data), varint.MAX_LONG_BYTES)
            if distance <= 0 or length <= 0:
                raise CorruptObject("the spans of a subscription are not in order")
            spans.append((to + distance, to + distance + length))
            to += distance + length
    except InvalidRecord as problem:
        raise CorruptObject(f"the spans of a subscription are cut off: {problem}") from problem
    return spans
