"""The inner order of a batch's records, checked without making objects.

A record is: length, attributes (1 byte, ignored), timestamp delta, offset delta, key length, key,
value length, value, header count, and per header: name length, name, value length, value. All
numbers are zigzag varints. A length of -1 means null.
Next door: opening records for use (record.py), the rules about whole batches (validation.py).
"""

from typing import Final

from kafscale.model.errors import InvalidRecord
from kafscale.records import varint

MIN_RECORD_SIZE: Final = 7  # every field at one byte


def check_records(data: bytes, at: int, count: int, require_key: bool) -> None:
    """Check that exactly `count` sound records, numbered from 0, fill `data` from `at` on."""
    check_one_by_one(data, at, count, require_key)


def check_one_by_one(data: bytes, at: int, count: int, require_key: bool) -> None:
    """The plain meaning of `check_records`."""
    for index in range(count):
        at = check_record(data, at, index, require_key)
    if at != len(data):
        raise InvalidRecord(f"{len(data) - at} bytes follow the last of {count} records")


def check_record(data: bytes, at: int, index: int, require_key: bool) -> int:
    """Check the record at `at`, which must be number `index`; the place after it."""
    length, at = varint.read(data, at, len(data))
    end = at + length
    if not at < end <= len(data):
        raise InvalidRecord(f"record {index} claims {length} bytes, {len(data) - at} are left")
    _, at = varint.read(data, at + 1, end, varint.MAX_LONG_BYTES)
    delta, at = varint.read(data, at, end)
    if delta != index:
        raise InvalidRecord(f"record {index} has offset delta {delta}")
    key_at, at = _skip_bytes(data, at, end)
    if require_key and key_at < 0:
        raise InvalidRecord(f"record {index} has no key, and the topic is compacted by key")
    _, at = _skip_bytes(data, at, end)
    count, at = varint.read(data, at, end)
    if not 0 <= count <= (end - at) // 2:
        raise InvalidRecord(f"record {index} claims {count} headers")
    for _ in range(count):
        length, at = _skip_bytes(data, at, end)
        if length < 0:
            raise InvalidRecord(f"record {index} has a header without a name")
        _, at = _skip_bytes(data, at, end)
    if at != end:
        raise InvalidRecord(f"record {index} has {end - at} bytes too many")
    return at


def _skip_bytes(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Step over nullable bytes: their length and the place after them."""
    length, at = varint.read(data, at, end)
    if length < -1 or at + length > end:
        raise InvalidRecord(f"{length} bytes claimed at byte {at}, {end - at} are left")
    return length, at + max(length, 0)
