"""Producers that never stop, whatever happens to the broker, and remember what they were told.

Next door: judging the memory (history.py).
"""

import threading
import time
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)

from tests.support.clients.confluent import GROUP
from tests.support.history import History, Mark

PLAIN = {
    "acks": "all",
    # More in flight may be reordered by retries; that is the setting's nature, not a fault.
    "max.in.flight": 1,
}
IDEMPOTENT = {"enable.idempotence": True}
PATIENT = {
    "reconnect.backoff.max.ms": 500,
    "message.timeout.ms": 600_000,
    "log_level": 0,  # a killed broker is no news here
}


class Load:
    """One producer in one thread, unique values, round-robin over the partitions."""

    in_flight_max = 400
    pause_s = 0.002

    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, idempotent: bool
    ) -> None:
        self.history = History(name, exactly_once=idempotent)
        self.errors: list[str] = []
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                **(IDEMPOTENT if idempotent else PLAIN),
                **PATIENT,
                "error_cb": self._error,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def open_count(self) -> int:
        """Sent and not yet answered."""
        return len(self.history.sent) - len(self.history.acknowledged)

    def finish(self, within_s: float = 120.0) -> int:
        """No new records; how many are still without an answer after the wait."""
        self._stopping.set()
        self._thread.join()
        return int(self._producer.flush(within_s))

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            if len(self._producer) < self.in_flight_max:
                for partition in range(self._partitions):
                    self._send(Mark(self.history.producer, partition, number))
                number += 1
            self._producer.poll(self.pause_s)

    def _send(self, mark: Mark) -> None:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.history.acknowledged[mark] = message.offset()
            else:
                self.errors.append(f"{mark}: {error}")

        self.history.sent.add(mark)
        self._producer.produce(
            self._topic, mark.to_value(), partition=mark.partition, on_delivery=delivered
        )

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors.append(f"fatal: {error}")


def read_all(
    bootstrap: str, topic: str, partitions: int, within_s: float = 120.0
) -> dict[int, list[tuple[int, bytes]]]:
    """Every record up to the end each partition has now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, **GROUP})
    places = [TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)]
    log: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(partitions)}
    deadline = time.monotonic() + within_s
    try:
        ends = {p.partition: _end(consumer, p) for p in places}
        consumer.assign(places)
        while any(not _reached(log[p], end) for p, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"ends {ends}, read {[len(records) for records in log.values()]}"
                )
            messages: list[Any] = consumer.consume(5000, timeout=0.5)
            for message in messages:
                assert message.error() is None, message.error()
                log[message.partition()].append((message.offset(), message.value()))
    finally:
        consumer.close()
    return log


def _end(consumer: Any, place: TopicPartition) -> int:
    return int(consumer.get_watermark_offsets(place, timeout=120)[1])


def _reached(records: list[tuple[int, bytes]], end: int) -> bool:
    return end == 0 or (bool(records) and records[-1][0] >= end - 1)
