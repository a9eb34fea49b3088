"""Was anything lost? A pure answer from what was sent, what was acknowledged, what is there.

In this room: the checker and its words.
Next door: producing under fire and reading back (tests/e2e/test_kill.py).
Never here: clients, brokers, clocks.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """What makes a record unique: who wrote it, where, as the how many-th."""

    producer: str
    partition: int
    number: int

    def to_value(self) -> bytes:
        return f"{self.producer} {self.partition} {self.number}".encode()

    @staticmethod
    def from_value(value: bytes) -> "Mark":
        producer, partition, number = value.decode().split(" ")
        return Mark(producer, int(partition), int(number))


@dataclass(slots=True)
class History:
    """What one producer did. Numbers count from 0 in each partition."""

    producer: str
    exactly_once: bool
    in_order: bool = True
    sent: set[Mark] = field(default_factory=set)
    # At which offset; None if the producer was only told that it is there, by a broker that has
    # taken over and remembers less than five batches of it.
    acknowledged: dict[Mark, int | None] = field(default_factory=dict)


# A partition as it was read: offset and value, in the order they came.
Log = Mapping[int, Sequence[tuple[int, bytes]]]


def problems(histories: Sequence[History], log: Log) -> list[str]:
    """Everything that must not be, one line each; empty when nothing was lost."""
    return [
        *_gaps(log),
        *_unsent(histories, log),
        *(line for history in histories for line in _misplaced(history, log)),
        *(line for history in histories for line in _doubled(history, log)),
        *(line for history in histories for line in _reordered(history, log)),
    ]


def _gaps(log: Log) -> Iterator[str]:
    for partition, records in sorted(log.items()):
        for expected, (offset, _) in enumerate(records):
            if offset != expected:
                yield f"gap: partition {partition} has offset {offset} where {expected} belongs"
                break


def _unsent(histories: Sequence[History], log: Log) -> Iterator[str]:
    known = {mark.to_value() for history in histories for mark in history.sent}
    for partition, records in sorted(log.items()):
        for offset, value in records:
            if value not in known:
                yield f"unsent: {partition}/{offset} holds {value[:60]!r}, which no producer sent"
            elif Mark.from_value(value).partition != partition:
                yield f"unsent: {partition}/{offset} holds {value!r} of another partition"


def _misplaced(history: History, log: Log) -> Iterator[str]:
    at = {(p, offset): value for p, records in log.items() for offset, value in records}
    present = set(at.values())
    for mark, offset in history.acknowledged.items():
        value = mark.to_value()
        if value not in present:
            yield f"lost: {mark} was acknowledged at {offset} and is nowhere"
        elif offset is not None and at.get((mark.partition, offset)) != value:
            yield f"wrong offset: {mark} was acknowledged at {offset} and is elsewhere"


def _doubled(history: History, log: Log) -> Iterator[str]:
    if not history.exactly_once:
        return
    times = Counter(value for records in log.values() for _, value in records)
    for mark in sorted(history.sent):
        if times[mark.to_value()] > 1:
            yield f"duplicate: {mark} is there {times[mark.to_value()]} times"


def _reordered(history: History, log: Log) -> Iterator[str]:
    """First appearances rise; a repeat of something already seen is no matter of order."""
    if not history.in_order:
        return
    mine = {mark.to_value(): mark.number for mark in history.sent}
    for partition, records in sorted(log.items()):
        highest, seen = -1, set()
        for offset, value in records:
            number = mine.get(value)
            if number is None or number in seen:
                continue
            seen.add(number)
            if number < highest:
                where = f"{partition}/{offset} of {history.producer}"
                yield f"reordered: {where} holds {number} after {highest}"
            highest = max(highest, number)
