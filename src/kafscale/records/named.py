"""Batches of producers that are known by their name.

Here: the name and the last sequence id of such a batch, in header fields that say nothing to
Kafka's readers: its producer id is negative. The sequence ids of a named producer grow, with gaps.
Next door: the header (batch.py), what a log remembers of producers (log/formats/producers.py).

Sequence ids have 63 bits: 31 lie in the base sequence, 11 in the producer epoch above four bits
that the writer of the batch uses, 21 at the lower end of the producer id. Above them lie 41 bits of
the name's hash (decision 72).
"""

import hashlib
from typing import Final, NamedTuple

from kafscale.records.batch import MAX_SEQUENCE, NAMED_BELOW, BatchHeader

LARGEST_SEQUENCE: Final = 2**63 - 1
_SMALLEST: Final = -(1 << 63)
_SEQUENCE_BITS: Final = 31  # in the base sequence
_EPOCH_BITS: Final = 11
_FLAG_BITS: Final = 4
_ID_BITS: Final = 21  # in the producer id
_HASH_BITS: Final = 41
_LOWER: Final = _SEQUENCE_BITS + _EPOCH_BITS
assert _SMALLEST + (1 << (_HASH_BITS + _ID_BITS)) == NAMED_BELOW


class NamedFields(NamedTuple):
    """What the header of a named producer's batch has in these three fields."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


def producer_of(name: str) -> int:
    """The number that stands for a name: no producer id of Kafka's is the same."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return _SMALLEST + (int.from_bytes(digest) >> (64 - _HASH_BITS) << _ID_BITS)


def fields_of(producer: int, last: int, count: int, flags: int) -> NamedFields:
    """The fields of a batch of `count` messages, of which the last has the sequence id `last`."""
    first = (last - count + 1) & LARGEST_SEQUENCE
    return NamedFields(
        producer + (first >> _LOWER),
        (first >> _SEQUENCE_BITS & ((1 << _EPOCH_BITS) - 1)) << _FLAG_BITS | flags,
        first & MAX_SEQUENCE,
    )


def producer(header: BatchHeader) -> int:
    """The number of the name that a batch was sent under."""
    return header.producer_id >> _ID_BITS << _ID_BITS


def first_sequence(header: BatchHeader) -> int:
    """The sequence id of a batch's first message, if they have no gaps."""
    upper = (header.producer_id - producer(header)) << _LOWER
    middle = header.producer_epoch >> _FLAG_BITS << _SEQUENCE_BITS
    return upper | middle | header.base_sequence


def last_sequence(header: BatchHeader) -> int:
    """The sequence id of a batch's last message."""
    return (first_sequence(header) + header.last_offset_delta) & LARGEST_SEQUENCE
