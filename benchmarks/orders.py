"""The records all Spark measurements use: orders of 200 bytes, JSON, 81 to a batch of 16 KB."""

import struct
from collections.abc import Iterator

from benchmarks.run import NOW_MS
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch

PER_BATCH = 81
_STATES = ("new", "paid", "sent", "back")


def order(number: int) -> Record:
    """Key 17 bytes, value about 178."""
    value = (
        f'{{"order_id":{number},"customer":"customer-{number * 7919 % 99991:05d}",'
        f'"amount":{number * 31 % 100000 / 100:.2f},"currency":"EUR",'
        f'"state":"{_STATES[number % 4]}","note":"'
    ).encode()
    return Record(number, NOW_MS + number, b"order-%011d" % number, value.ljust(176, b"x") + b'"}')


def batches(size: int, codec: Codec = Codec.NONE, templates: int = 64) -> Iterator[bytes]:
    """Batches of about `size` raw bytes in all; a few templates, each with its own offsets."""
    made = []
    raw = 0
    for number in range(templates):
        records = [order(number * PER_BATCH + n)._replace(offset=n) for n in range(PER_BATCH)]
        raw = len(build_batch(records, base_offset=0))
        made.append(bytearray(build_batch(records, base_offset=0, codec=codec)))
    for number in range(max(1, size // raw)):
        one = made[number % templates]
        struct.pack_into(">q", one, 0, number * PER_BATCH)
        yield bytes(one)
