"""Reading ranges of offsets of a topic's partitions, without a consumer group.

Here: one client that is pointed at ranges, again and again, until it is closed. Next door: reading
a topic as commands do (consuming.py), what is looked for (console/records).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    TopicPartition,
)

from kafscale.admin.brokers.client import open_client, refusal
from kafscale.admin.brokers.offsets import PASSING

_BATCH: Final = 500
_LOOK_UP_EVERY_S: Final = 0.2
Headers = list[tuple[str, bytes | None]]


class ScannedRecord(NamedTuple):
    """A record as a consumer is handed it."""

    partition: int
    offset: int
    timestamp_ms: int | None
    is_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        named = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + named


class Scanner:
    """A client of one topic. Use it from one thread at a time."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self.topic = topic
        self._consumer: Consumer = open_client(
            Consumer,
            settings
            | {
                # The library insists on a name; nothing is ever committed under it.
                "group.id": "kafscale-console",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": 16 << 10,
                "fetch.wait.max.ms": 200,
            },
        )

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()

    def read(
        self, ranges: Mapping[int, tuple[int, int]], is_stopped: Callable[[], bool]
    ) -> Iterator[list[ScannedRecord]]:
        """Yield the records of each partition from its first offset up to before its last.

        Of one partition they come in order. An empty list says that time has passed.
        """
        left = {at: end for at, (first, end) in ranges.items() if first < end}
        if not left:
            return
        self._assign({at: ranges[at][0] for at in left})
        while left and not is_stopped():
            found = []
            for record in self._poll():
                if isinstance(record, int):  # the end of a partition
                    left.pop(record, None)
                    continue
                end = left.get(record.partition)
                if end is None:
                    continue
                if record.offset < end:
                    found.append(record)
                if record.offset + 1 >= end:
                    self._finish(left, record.partition)
            yield found

    def follow(
        self, starts: Mapping[int, int], is_stopped: Callable[[], bool]
    ) -> Iterator[list[ScannedRecord]]:
        """Yield records as they come; an empty list says that time has passed."""
        self._assign(starts)
        while not is_stopped():
            yield [record for record in self._poll() if not isinstance(record, int)]

    def _assign(self, starts: Mapping[int, int]) -> None:
        self._consumer.assign(
            [TopicPartition(self.topic, at, first) for at, first in starts.items()]
        )

    def _finish(self, left: dict[int, int], partition: int) -> None:
        """Read no more of a partition: what is behind its range would cost bytes."""
        del left[partition]
        if left:
            self._consumer.incremental_unassign([TopicPartition(self.topic, partition)])

    def _poll(self) -> Iterator[ScannedRecord | int]:
        for message in self._consumer.consume(_BATCH, timeout=_LOOK_UP_EVERY_S):
            error: Any = message.error()
            if error is None:
                yield _record(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                yield int(message.partition() or 0)
            elif error.fatal() or (message.topic() is not None and error.code() not in PASSING):
                raise refusal(f"{message.topic()}/{message.partition()}", error)


def _record(message: Any) -> ScannedRecord:  # typed as if every field could be missing
    kind, timestamp_ms = message.timestamp()
    return ScannedRecord(
        message.partition(),
        message.offset(),
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        kind == TIMESTAMP_LOG_APPEND_TIME,
        message.key(),
        message.value(),
        message.headers() or [],
    )
