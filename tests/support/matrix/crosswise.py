"""Everyone reads what everyone wrote, in every codec both have.

One topic per codec, one partition per writer, so that a reader is asked once per codec.
"""

from typing import Final

from kafka.partitioner.default import murmur2

from tests.support.clients.base import CODECS, Client, ClientError, Record, Stored
from tests.support.clients.confluent import Confluent
from tests.support.matrix.cells import until

RECORDS: Final = 5

Found = list[tuple[bytes | None, bytes | None]]


def topic_of(codec: str) -> str:
    return f"crosswise-{codec}"


def prepare(judge: Confluent, partitions: int) -> None:
    for codec in CODECS:
        judge.create_topic(topic_of(codec), partitions)
    wanted = {topic_of(codec) for codec in CODECS}
    until(lambda: wanted <= judge.list_topics().keys(), "topics are there")


def records_of(writer: str, codec: str, partition: int, partitions: int) -> list[Record]:
    """Keys are such that a client that cannot choose a partition comes to this one by itself."""
    numbers = (n for n in range(1_000_000) if _by_key(b"%d" % n, partitions) == partition)
    return [
        Record(partition, b"%d" % n, f"{writer} wrote {n} with {codec}, ".encode() * 20)
        for n, _ in zip(numbers, range(RECORDS), strict=False)
    ]


def write(writer: Client, partition: int, partitions: int) -> None:
    for codec in writer.codecs:
        records = records_of(writer.name, codec, partition, partitions)
        writer.produce(topic_of(codec), records, codec)


def read(reader: Client, writers: dict[str, Client], places: dict[str, int]) -> dict[str, str]:
    """For each writer, whether the reader found what that one wrote."""
    seen: dict[str, str] = dict.fromkeys(writers, "yes")
    for codec in reader.codecs:
        their = {name: places[name] for name, who in writers.items() if codec in who.codecs}
        try:
            topic, count = topic_of(codec), RECORDS * len(their)
            found = reader.consume(topic, sorted(their.values()), count)
        except ClientError as refused:
            seen |= dict.fromkeys(their, f"no: {codec}: {refused}")
            continue
        for name, place in their.items():
            wanted = records_of(name, codec, place, len(places))
            if _of(found, place) != [(r.key, r.value) for r in wanted]:
                seen[name] = f"no: {codec}: {_of(found, place)!r:.500}"
    return seen


def _of(found: list[Stored], partition: int) -> Found:
    return [(s.key, s.value) for s in found if s.partition == partition]


def _by_key(key: bytes, partitions: int) -> int:
    """Where Kafka's own producer puts a key."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)
