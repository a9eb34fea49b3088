"""What of a subscription outlives its broker: how far it has come, and the spans beyond.

Here: the snapshot, and its spans as bytes. For each span there are two varints: the distance from
the end of the span before it, and its length. A span that was handed back has a third one: how
often.
Next door: where it is written (engine/subscriptions/cursors.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafscale.model.errors import CorruptObject, InvalidRecord
from kafscale.records import varint
from kafscale.subscriptions.events import OffsetSpan, ReturnedSpan


class CursorSnapshot(NamedTuple):
    """What is acknowledged."""

    acknowledged_to: int
    spans: Sequence[OffsetSpan] = ()
    returned: Sequence[ReturnedSpan] = ()  # what was handed back, where deliveries are counted


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
    return [(first, after) for first, after, _ in _decode(to, data, has_counts=False)]


def encode_returned(to: int, spans: Iterable[ReturnedSpan]) -> bytes:
    """The bytes of spans that were handed back."""
    out = bytearray()
    for first, after, redeliveries in spans:
        out += varint.encode(first - to)
        out += varint.encode(after - first)
        out += varint.encode(redeliveries)
        to = after
    return bytes(out)


def decode_returned(to: int, data: bytes) -> list[ReturnedSpan]:
    """The spans that these bytes were made from. Raises CorruptObject."""
    return list(_decode(to, data, has_counts=True))


def _decode(to: int, data: bytes, *, has_counts: bool) -> Iterator[ReturnedSpan]:
    at, count = 0, 0
    try:
        while at < len(data):
            distance, at = varint.read(data, at, len(data), varint.MAX_LONG_BYTES)
            length, at = varint.read(data, at, len(data), varint.MAX_LONG_BYTES)
            if has_counts:
                count, at = varint.read(data, at, len(data))
            # Acknowledged spans lie beyond a gap; what was handed back can begin at once.
            if distance < (0 if has_counts else 1) or length <= 0 or count < 0:
                raise CorruptObject("the spans of a subscription are not in order")
            yield to + distance, to + distance + length, count
            to += distance + length
    except InvalidRecord as problem:
        raise CorruptObject(f"the spans of a subscription are cut off: {problem}") from problem
