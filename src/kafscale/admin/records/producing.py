"""Sending records to a topic through brokers, and what became of them.

Next door: where the records come from (cli/brokers/records/produce.py, cli/serving/demo.py).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafscale.admin.brokers.client import open_client, refusal
from kafscale.admin.errors import AdminError

_REPORT_EVERY: Final = 1000
_FLUSH_S: Final = 0.2  # the library sees Ctrl-C between two waits only
_ANY_PARTITION: Final = -1
_NOW: Final = 0  # the library's word for "stamp it when it is sent"

OutgoingHeaders = list[tuple[str, str | bytes | None]]


class OutgoingRecord(NamedTuple):
    """One record to send."""

    key: bytes | None
    value: bytes
    timestamp_ms: int | None = None  # None: when it is sent


def open_producer(settings: dict[str, Any]) -> Producer:
    """Make a producer; InvalidArgument for settings that its library does not take."""
    return open_client(Producer, settings)


class Delivery:
    """Sends records and remembers what became of them."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partition: int | None = None,
        headers: OutgoingHeaders | None = None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = _ANY_PARTITION if partition is None else partition
        self._headers = headers or []
        self._sent = 0
        self._settled = 0
        self._failed = 0
        self._first_error: KafkaError | None = None

    def send(self, records: Iterable[OutgoingRecord], report: Callable[[int], None]) -> None:
        """Hand every record to the client library, waiting where its queue is full."""
        for record in records:
            while not self._try(record):
                self._producer.poll(0.1)
            self._producer.poll(0)
            self._sent += 1
            if self._sent % _REPORT_EVERY == 0:
                report(self._sent)

    @property
    def settled(self) -> int:
        """How many records were acknowledged or given up."""
        return self._settled

    @property
    def waiting(self) -> int:
        """How many records are neither acknowledged nor given up."""
        return self._sent - self._settled

    def poll(self) -> None:
        """Take up what became of records; from any thread."""
        self._producer.poll(0)

    def flush(self, patience_s: float | None = None) -> None:
        """Wait until every record is acknowledged or given up, or for so long."""
        left_s = patience_s
        while (left_s is None or left_s > 0) and self._producer.flush(_FLUSH_S):
            if left_s is not None:
                left_s -= _FLUSH_S

    def abandon(self) -> None:
        """Forget the records that wait: they may be stored or not."""
        self._producer.purge()

    def check(self) -> None:
        """Raise AdminError unless every record was acknowledged."""
        if self._first_error is not None:
            raise AdminError(
                f"{self._failed} of {self._sent} records were not delivered to {self._topic}: "
                f"{self._first_error.str()}"
            )

    def _try(self, record: OutgoingRecord) -> bool:
        try:
            self._producer.produce(
                self._topic,
                value=record.value,
                key=record.key,
                partition=self._partition,
                headers=self._headers,
                timestamp=_NOW if record.timestamp_ms is None else record.timestamp_ms,
                on_delivery=self._note,
            )
        except BufferError:
            return False
        except KafkaException as bad:
            raise refusal(self._topic, bad) from bad
        return True

    def _note(self, error: KafkaError | None, message: Message) -> None:
        self._settled += 1
        if error is not None:
            self._failed += 1
            self._first_error = self._first_error or error
