"""Every Kafka client reads what Pulsar's Python client wrote, and that one what they wrote.

One topic per codec of Pulsar's; next door: the topics that Kafka clients write (crosswise.py).
"""

from typing import Final

import pulsar

from tests.support.clients.base import CODECS, Client, ClientError
from tests.support.matrix.crosswise import RECORDS, records_of, topic_of
from tests.support.pulsar_client import PATIENCE_MS, send_all

_COMPRESSION: Final = {
    "none": pulsar.CompressionType.NONE,
    "gzip": pulsar.CompressionType.ZLib,
    "snappy": pulsar.CompressionType.SNAPPY,
    "lz4": pulsar.CompressionType.LZ4,
    "zstd": pulsar.CompressionType.ZSTD,
}
_ROWS: Final = [(f"k{number}".encode(), b"by Pulsar, %d, " % number * 20) for number in range(5)]


def _written_topic(codec: str) -> str:
    return f"by-pulsar-{codec}"


def write(client: pulsar.Client) -> None:
    """In every codec: messages one by one, and the same again in a batch."""
    for codec in CODECS:
        for is_batching in (False, True):
            producer = client.create_producer(
                _written_topic(codec),
                compression_type=_COMPRESSION[codec],
                batching_enabled=is_batching,
            )
            rows = [{"content": value, "partition_key": key.decode()} for key, value in _ROWS]
            send_all(producer, rows)
            producer.close()


def read_by(reader: Client) -> list[str]:
    """What a Kafka client does not read of that."""
    broken = []
    for codec in reader.codecs:
        try:
            found = reader.consume(_written_topic(codec), [0], 2 * len(_ROWS))
        except ClientError as refused:
            broken.append(f"{codec}: {refused}")
            continue
        rows = [(one.key, one.value) for one in sorted(found, key=lambda one: one.offset)]
        if rows != 2 * _ROWS:
            broken.append(f"{codec}: {rows!r:.500}")
    return broken


def read(client: pulsar.Client, writer: Client, place: int, partitions: int) -> list[str]:
    """What Pulsar's client does not read of what a Kafka client wrote."""
    broken = []
    for codec in writer.codecs:
        reader = client.create_reader(
            f"{topic_of(codec)}-partition-{place}", pulsar.MessageId.earliest
        )
        messages = [reader.read_next(PATIENCE_MS) for _ in range(RECORDS)]
        reader.close()
        rows = [(one.partition_key().encode(), one.data()) for one in messages]
        wanted = records_of(writer.name, codec, place, partitions)
        if rows != [(one.key, one.value) for one in wanted]:
            broken.append(f"{codec}: {rows!r:.500}")
    return broken
