"""Lines to records, and what is said when some do not arrive."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Producer

from kafscale.admin.errors import AdminError
from kafscale.admin.records.producing import Delivery, OutgoingRecord
from kafscale.cli.brokers.records.produce import _header, _separator, read_lines


def test_a_line_is_a_value_without_its_line_end() -> None:
    lines = list(read_lines([b"a\n", b"\n", b"b:c\r\n", b"last"], None))
    assert [line.value for line in lines] == [b"a", b"", b"b:c\r", b"last"]
    assert {line.key for line in lines} == {None}


def test_a_separator_splits_once_and_a_line_without_it_has_no_key() -> None:
    lines = list(read_lines([b"k::v::w\n", b"plain\n", b"::v\n"], b"::"))
    assert lines == [
        OutgoingRecord(b"k", b"v::w"),
        OutgoingRecord(None, b"plain"),
        OutgoingRecord(b"", b"v"),
    ]


def test_arguments_that_are_no_utf_8_are_the_bytes_that_were_typed() -> None:
    assert _separator("\udcff") == b"\xff"
    assert _header("name=\udcff\u00fc") == ("name", b"\xff\xc3\xbc")


class FakeProducer:
    """Has room for `room` records until it is polled; fails those whose value is in `bad`."""

    def __init__(self, room: int = 100, bad: frozenset[bytes] = frozenset()) -> None:
        self.room, self.bad = room, bad
        self.queued: list[tuple[bytes, Callable[[KafkaError | None, Any], None]]] = []
        self.delivered: list[tuple[bytes, int]] = []

    def produce(
        self, topic: str, *, value: bytes, partition: int, on_delivery: Any, **_: object
    ) -> None:
        if len(self.queued) >= self.room:
            raise BufferError("queue full")
        self.queued.append((value, on_delivery))
        self.delivered.append((value, partition))

    def poll(self, wait_s: float) -> None:
        if wait_s:
            self.flush()

    def flush(self) -> None:
        for value, on_delivery in self.queued:
            failed = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if value in self.bad else None
            on_delivery(failed, None)
        self.queued.clear()


def deliver(producer: FakeProducer, values: list[bytes]) -> Delivery:
    delivery = Delivery(cast(Producer, producer), "t", None, [])
    delivery.send([OutgoingRecord(None, value) for value in values], lambda done: None)
    producer.flush()
    return delivery


def test_a_full_queue_is_waited_for_and_nothing_is_lost_or_sent_twice() -> None:
    producer = FakeProducer(room=2)
    values = [b"%d" % number for number in range(7)]
    deliver(producer, values).check()
    assert producer.delivered == [(value, -1) for value in values]


def test_records_that_did_not_arrive_are_counted_with_the_first_reason() -> None:
    delivery = deliver(FakeProducer(bad=frozenset({b"2", b"3"})), [b"1", b"2", b"3"])
    with pytest.raises(AdminError, match=r"2 of 3 records were not delivered to t: .*too large"):
        delivery.check()
