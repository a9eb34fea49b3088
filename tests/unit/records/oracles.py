"""Other people's record batches: two clients' builders and parsers, behind one shape."""

import warnings
from collections.abc import Sequence

from aiokafka.record import default_records as aiokafka_records

from kafscale.records import framing
from kafscale.records.compression import Codec
from kafscale.records.record import Record

with warnings.catch_warnings():
    # kafka-python reads its schemas through a deprecated function when it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import default_records as kafka_python_records
    from kafka.record.util import encode_varint

MODULES = {"aiokafka": aiokafka_records, "kafka-python": kafka_python_records}

# kafka-python packs snappy and zstd with packages that are not among our dependencies.
PAIRS = [("aiokafka", codec) for codec in Codec] + [
    ("kafka-python", codec) for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4)
]


def build(client: str, codec: Codec, records: Sequence[Record]) -> bytes:
    """A batch as this client's producer would send it, offsets from 0."""
    builder = MODULES[client].DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec.value,
        is_transactional=0,
        producer_id=7,
        producer_epoch=3,
        base_sequence=5,
        batch_size=2**30,
    )
    for number, record in enumerate(records):
        builder.append(number, record.timestamp_ms, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def parse(client: str, batch: bytes) -> list[Record]:
    """The records that this client's consumer would see; its own checksum test must pass."""
    opened = MODULES[client].DefaultRecordBatch(batch)
    assert opened.validate_crc()
    return [
        Record(
            theirs.offset,
            theirs.timestamp,
            None if theirs.key is None else bytes(theirs.key),
            None if theirs.value is None else bytes(theirs.value),
            tuple((name, None if v is None else bytes(v)) for name, v in theirs.headers),
        )
        for theirs in opened
    ]


def kafka_python_varint(number: int) -> bytes:
    """One number as kafka-python writes it."""
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def check_one_by_one(data: bytes, at: int, count: int, require_key: bool) -> None:
    """Check that exactly `count` sound records, numbered from 0, fill `data` from `at` on."""
    for index in range(count):
        at = framing.check_record(data, at, index, require_key).end
    framing.check_end(data, at, count)
