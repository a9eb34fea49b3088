"""Sending a few records, each with its own place, and where each one went.

Next door: sending many (producing.py).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from kafscale.admin.brokers.client import refusal
from kafscale.admin.records.producing import OutgoingHeaders, open_producer

_DELIVER_WITHIN_S: Final = 15.0
_ANY_PARTITION: Final = -1


class PlacedRecord(NamedTuple):
    """A record to send; partition None: by its key."""

    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: OutgoingHeaders


class SentRecord(NamedTuple):
    """Where a record went, or why it did not."""

    partition: int | None
    offset: int | None
    error: str | None = None


def send_records(
    settings: dict[str, Any], topic: str, records: Sequence[PlacedRecord]
) -> list[SentRecord]:
    """Send the records with acks=all and wait for all of them."""
    within_ms = int(_DELIVER_WITHIN_S * 1000)
    producer = open_producer(settings | {"acks": "all", "message.timeout.ms": within_ms})
    sent = [SentRecord(None, None, "no answer within the time")] * len(records)

    def noting(at: int) -> Any:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                sent[at] = SentRecord(None, None, str(refusal("", error)))
            else:
                sent[at] = SentRecord(message.partition(), message.offset())

        return note

    for at, record in enumerate(records):
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=_ANY_PARTITION if record.partition is None else record.partition,
                headers=record.headers,
                on_delivery=noting(at),
            )
        except (KafkaException, BufferError) as bad:
            text = str(refusal("", bad)) if isinstance(bad, KafkaException) else str(bad)
            sent[at] = SentRecord(None, None, text)
    producer.flush(_DELIVER_WITHIN_S + 1)
    return sent
