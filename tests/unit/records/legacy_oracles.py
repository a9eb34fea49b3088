"""Other people's message sets: two clients' builders and parsers, behind one shape."""

import warnings
from collections.abc import Sequence

from aiokafka.record import legacy_records as aiokafka_legacy
from aiokafka.record import memory_records as aiokafka_memory

from kafscale.records.compression import Codec
from tests.support.old_wire import Old

with warnings.catch_warnings():
    # kafka-python reads its schemas through a deprecated function when it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import legacy_records as kafka_python_legacy
    from kafka.record import memory_records as kafka_python_memory

LEGACY = {"aiokafka": aiokafka_legacy, "kafka-python": kafka_python_legacy}
MEMORY = {"aiokafka": aiokafka_memory, "kafka-python": kafka_python_memory}
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
# aiokafka has no LZ4 in format 0: the wrong checksum was more than it would write or read.
CASES = [
    (client, magic, codec)
    for client in LEGACY
    for magic in (0, 1)
    for codec in CODECS
    if (client, magic, codec) != ("aiokafka", 0, Codec.LZ4)
]


def build(client: str, magic: int, codec: Codec, rows: Sequence[Old]) -> bytes:
    """A set as this client's producer would send it, offsets from 0."""
    builder = LEGACY[client].LegacyRecordBatchBuilder(
        magic=magic, compression_type=codec.value, batch_size=2**30
    )
    for number, row in enumerate(rows):
        time_ms = row.timestamp_ms if magic else None
        assert builder.append(number, time_ms, row.key, row.value) is not None
    return bytes(builder.build())


def parse(client: str, messages: bytes) -> list[Old]:
    """The records that this client's consumer would see; its own checksum test must pass."""
    records = MEMORY[client].MemoryRecords(messages)
    found = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found += [
            Old(
                theirs.offset,
                -1 if theirs.timestamp is None else theirs.timestamp,
                None if theirs.key is None else bytes(theirs.key),
                None if theirs.value is None else bytes(theirs.value),
            )
            for theirs in batch
        ]
    return found
