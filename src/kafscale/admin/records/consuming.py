"""Reading a topic's records through brokers, without a consumer group.

Next door: how they are printed (cli/brokers/records/record_format.py), where to start
(topics.list_offset_ranges).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, TopicPartition

from kafscale.admin.brokers.client import refusal
from kafscale.admin.brokers.offsets import PASSING

_BATCH: Final = 1000
_LOOK_UP_EVERY_S: Final = 0.25  # how long Ctrl-C may have to wait for the client library


class ConsumedRecord(NamedTuple):
    """What a consumer was handed."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def read_records(
    settings: dict[str, Any],
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    follow: bool,
) -> Generator[list[ConsumedRecord], None, None]:
    """Yield the records of partitions from their start; up to their end, or without end."""
    consumer = Consumer(
        settings
        | {
            # The library insists on a name; nothing is ever committed under it.
            "group.id": "kafscale-cli",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, at, start) for at, start in starts.items()])
        yield from poll_records(consumer, starts, ends, follow)
    finally:
        consumer.close()


def poll_records(
    consumer: Consumer, starts: Mapping[int, int], ends: Mapping[int, int], follow: bool
) -> Iterator[list[ConsumedRecord]]:
    """Yield what arrives in batches; stop where each partition ended at the beginning."""
    waiting = {at for at, end in ends.items() if starts[at] < end}
    while waiting or follow:
        batch: list[ConsumedRecord] = []
        for message in consumer.consume(_BATCH, timeout=_LOOK_UP_EVERY_S):
            if message.error() is not None:
                if _is_end(message):
                    # The last offsets need not be records: a marker, or compacted away.
                    waiting.discard(message.partition())
                continue
            record = _record(message)
            if follow or record.offset < ends[record.partition]:
                batch.append(record)
            if not follow and record.offset + 1 >= ends[record.partition]:
                waiting.discard(record.partition)
        if batch:
            yield batch


def _is_end(message: Any) -> bool:
    """Whether an error only says that a partition has no more; raises if waiting is no use."""
    error = message.error()
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.fatal() or (message.topic() is not None and error.code() not in PASSING):
        raise refusal(f"{message.topic()}/{message.partition()}", error)
    # Of the group, which is not used here, or over soon: the library tries again by itself.
    return False


def _record(message: Any) -> ConsumedRecord:  # typed as if every field could be missing
    kind, timestamp_ms = message.timestamp()
    return ConsumedRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.key(),
        message.value(),
        message.headers() or (),
    )
