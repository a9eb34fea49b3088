"""Sets of formats 0 and 1 that will not be stored, each with its own reason."""

import gzip
import struct

import lz4.frame
import pytest

from kafscale.model.errors import (
    BadBatch,
    CorruptBatch,
    InvalidRecord,
    KafscaleError,
    UnsupportedCompression,
)
from kafscale.records.legacy_up import to_batches
from kafscale.records.validation import BatchLimits
from tests.support.old_wire import (
    GZIP,
    LZ4,
    SNAPPY,
    Old,
    forged,
    message,
    plain,
    sized,
    wrapper,
)
from tests.unit.records.samples import NOW_MS

LIMITS = BatchLimits(
    max_message_bytes=10_000, max_segment_bytes=100_000, max_decompressed_bytes=100_000
)
ROWS = [Old(n, NOW_MS + n, b"k", b"value") for n in range(4)]


def broken(magic: int, at: int) -> bytes:
    data = bytearray(message(magic, b"key", b"value"))
    data[at] ^= 0x10
    return bytes(data)


def body(magic: int, rest: bytes, attributes: int = 0) -> bytes:
    """A message with a right checksum over any key and value."""
    return struct.pack(">bb", magic, attributes) + (bytes(8) if magic else b"") + rest


NULL = sized(None)


def refusals(magic: int) -> dict[str, tuple[bytes, type[KafscaleError]]]:
    good = message(magic)
    other = message(1 - magic)
    inside = plain(ROWS, magic)
    packed = wrapper(magic, inside, GZIP)
    flat = wrapper(magic, message(magic)[:-1] + b"w", GZIP)
    return {
        "checksum": (broken(magic, -1), CorruptBatch),
        "checksum of the second": (good + broken(magic, -1), CorruptBatch),
        "checksum of a wrapper": (packed[:-1] + bytes([packed[-1] ^ 1]), CorruptBatch),
        "checksum inside": (flat, CorruptBatch),
        "another format": (good + other, InvalidRecord),
        "format 2 behind": (good + message(2), InvalidRecord),
        "an unknown format": (good + message(3), CorruptBatch),
        "another format inside": (wrapper(magic, other, GZIP), InvalidRecord),
        "two wrappers": (packed + packed, InvalidRecord),
        "plain and wrapper": (good + packed, InvalidRecord),
        "wrapper and plain": (packed + good, InvalidRecord),
        "wrapper in wrapper": (wrapper(magic, packed, GZIP), InvalidRecord),
        "wrapper of nothing": (wrapper(magic, b"", GZIP), InvalidRecord),
        "wrapper of null": (message(magic, None, None, attributes=GZIP), InvalidRecord),
        "wrapper of no bytes": (message(magic, None, b"", attributes=GZIP), CorruptBatch),
        "garbage inside": (wrapper(magic, b"garbage", GZIP), InvalidRecord),
        "half a message inside": (wrapper(magic, inside[:-3], GZIP), InvalidRecord),
        "no gzip": (message(magic, None, inside, attributes=GZIP), CorruptBatch),
        "no snappy": (message(magic, None, b"\xff" * 20, attributes=SNAPPY), CorruptBatch),
        "no lz4": (message(magic, None, inside, attributes=LZ4), CorruptBatch),
        "half an lz4": (
            message(magic, None, lz4.frame.compress(inside)[:-9], attributes=LZ4),
            CorruptBatch,
        ),
        "half a gzip": (
            message(magic, None, gzip.compress(inside)[:-9], attributes=1),
            CorruptBatch,
        ),
        "zstd": (message(magic, None, b"zstd", attributes=4), UnsupportedCompression),
        "codec 7": (message(magic, None, b"?", attributes=7), UnsupportedCompression),
        "size 13": (forged(body(magic, NULL + NULL), size=13), CorruptBatch),
        "size 0": (forged(body(magic, NULL + NULL), size=0), CorruptBatch),
        "size -1": (forged(body(magic, NULL + NULL), size=-1), CorruptBatch),
        "size -2^31": (good + forged(body(magic, NULL), size=-(2**31)), CorruptBatch),
        "size 2^31 - 1": (forged(body(magic, NULL + NULL), size=2**31 - 1), InvalidRecord),
        "size of a wrapper": (
            forged(body(magic, NULL + sized(b"x"), GZIP), size=2**31 - 1),
            InvalidRecord,
        ),
        "small size of a wrapper": (forged(body(magic, NULL + NULL, 1), size=13), CorruptBatch),
        "cut off": (good + good[:-1], InvalidRecord),
        "cut off within its head": (good + good[:20], InvalidRecord),
        "cut off within its size": (good + good[:11], InvalidRecord),
        "a byte too many": (good + b"\0", InvalidRecord),
        "key -2": (forged(body(magic, struct.pack(">i", -2) + NULL)), InvalidRecord),
        "key too long": (forged(body(magic, struct.pack(">i", 99) + NULL)), InvalidRecord),
        "key 2^31 - 1": (forged(body(magic, struct.pack(">i", 2**31 - 1) + NULL)), InvalidRecord),
        "value -2": (forged(body(magic, NULL + struct.pack(">i", -2))), InvalidRecord),
        "value too short": (
            forged(body(magic, NULL + struct.pack(">i", 1) + b"ab")),
            InvalidRecord,
        ),
        "value too long": (forged(body(magic, NULL + struct.pack(">i", 5) + b"ab")), InvalidRecord),
        "null and bytes": (forged(body(magic, NULL + NULL + b"ab")), InvalidRecord),
        "key of a wrapper": (
            forged(body(magic, struct.pack(">i", 99) + sized(b"x"), GZIP)),
            InvalidRecord,
        ),
        "value of a wrapper": (
            forged(body(magic, NULL + struct.pack(">i", 99) + b"x", GZIP)),
            InvalidRecord,
        ),
        "nothing": (b"", InvalidRecord),
        "seventeen bytes": (good[:17], InvalidRecord),
    }


@pytest.mark.parametrize("case", refusals(0))
@pytest.mark.parametrize("magic", [0, 1])
def test_what_is_wrong_is_refused_by_its_own_name(magic: int, case: str) -> None:
    records, kind = refusals(magic)[case]
    with pytest.raises(BadBatch) as refused:
        to_batches(records, LIMITS, NOW_MS)
    assert type(refused.value) is kind, refused.value
