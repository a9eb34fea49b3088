"""Requests out of all proportion: so many rows that answering them would hold up everyone.

Here: counting what a request lists, before any of it is looked at.
Next door: taking requests apart (wire), refusing them (session.py).
"""

from typing import Final

from kafscale.wire.kafka.frame import MalformedMessage
from kafscale.wire.kafka.schema import Struct

_MOST_ROWS: Final = 100_000
_SMALLEST_ROW: Final = 4  # bytes; a frame too small for so many rows need not be counted


def check(message: Struct, frame_bytes: int) -> None:
    """Refuse a request with more rows than one may have."""
    if frame_bytes < _MOST_ROWS * _SMALLEST_ROW:
        return
    rows = rows_in(message)
    if rows > _MOST_ROWS:
        raise MalformedMessage(f"{rows} rows in one request; {_MOST_ROWS} are allowed")


def rows_in(row: Struct) -> int:
    """How many elements all lists below this one have together."""
    total = 0
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if type(value) is list:
            total += len(value)
            if value and isinstance(value[0], Struct) and total <= _MOST_ROWS:
                total += sum(map(rows_in, value))
    return total
