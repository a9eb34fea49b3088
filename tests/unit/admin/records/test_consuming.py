"""When reading stops."""

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError

from kafscale.admin.errors import AdminError
from kafscale.admin.records.consuming import poll_records


class FakeMessage:
    def __init__(self, partition: int, offset: int, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._error = partition, offset, error

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (1, 1000)

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d" % self._offset

    def headers(self) -> None:
        return None


class FakeConsumer:
    """Hands out what it was given, batch by batch; asking for more than that is an error."""

    def __init__(self, *batches: list[FakeMessage]) -> None:
        self.batches = list(batches)

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        return self.batches.pop(0)


def consumed(fake: FakeConsumer, starts: dict[int, int], ends: dict[int, int]) -> list[Any]:
    batches = poll_records(cast(Consumer, fake), starts, ends, follow=False)
    return [(record.partition, record.offset) for batch in batches for record in batch]


def test_reading_stops_where_each_partition_ended_at_the_start() -> None:
    fake = FakeConsumer(
        [FakeMessage(0, 0), FakeMessage(1, 7)],
        [],
        [FakeMessage(0, 1), FakeMessage(0, 2)],  # offset 2 was written after we began
    )
    assert consumed(fake, {0: 0, 1: 7}, {0: 2, 1: 8}) == [(0, 0), (1, 7), (0, 1)]
    assert fake.batches == []


def test_an_empty_partition_is_not_waited_for() -> None:
    assert consumed(FakeConsumer(), {0: 4}, {0: 4}) == []


def test_the_end_of_a_partition_ends_the_wait_for_offsets_that_are_no_records() -> None:
    eof = FakeMessage(0, 5, KafkaError(KafkaError._PARTITION_EOF))
    assert consumed(FakeConsumer([FakeMessage(0, 3), eof]), {0: 0}, {0: 5}) == [(0, 3)]


class GroupTrouble(FakeMessage):
    """An error of the consumer as a whole: it names no topic."""

    def topic(self) -> None:  # type: ignore[override]
        return None


def test_passing_troubles_are_waited_out() -> None:
    passing = FakeMessage(0, 0, KafkaError(KafkaError.REQUEST_TIMED_OUT))
    group = GroupTrouble(0, 0, KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    fake = FakeConsumer([passing, group], [FakeMessage(0, 0)])
    assert consumed(fake, {0: 0}, {0: 1}) == [(0, 0)]


@pytest.mark.parametrize(
    "trouble",
    [
        FakeMessage(0, 0, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)),
        GroupTrouble(0, 0, KafkaError(KafkaError._FATAL, "over", fatal=True)),
    ],
)
def test_other_troubles_end_the_command(trouble: FakeMessage) -> None:
    with pytest.raises(AdminError):
        consumed(FakeConsumer([trouble]), {0: 0}, {0: 1})
