"""What happened in a run: plain data, written by workers, read by the checker.

In this room: one small type per kind of event, the history that holds them, its file.
Next door: judging it (checker.py), counting it (report.py).
Never here: clients, brokers, clocks.

Times are seconds of one monotonic clock. An operation has a beginning and an end; `ok` means the
answer was in hand at the end, `failed` that it surely did not happen, `unknown` that it may have
happened or may yet happen.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

OK: Final = "ok"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"
# The value of an offset that is taken and holds no record: a topic has moved there.
NOTHING: Final = "(nothing)"


def value_of(producer: str, partition: int, number: int) -> str:
    """What makes a record unique: its producer, its partition, its number."""
    return f"{producer} {partition} {number}"


@dataclass(slots=True)
class Send:
    """One record handed to a producer. Numbers rise within a producer and partition."""

    producer: str
    partition: int
    number: int
    begun_s: float
    ended_s: float = -1.0
    outcome: str = UNKNOWN
    offset: int = -1
    error: str = ""

    @property
    def value(self) -> str:
        return value_of(self.producer, self.partition, self.number)


@dataclass(slots=True, frozen=True)
class Poll:
    """One record that a reader got. Within one `stretch` the reader did not seek."""

    reader: str
    stretch: int
    partition: int
    offset: int
    value: str
    at_s: float


@dataclass(slots=True, frozen=True)
class Commit:
    """A member asked to commit an offset of its group."""

    group: str
    partition: int
    offset: int
    begun_s: float
    ended_s: float
    outcome: str


@dataclass(slots=True, frozen=True)
class Fetched:
    """The answer to a question for the committed offset of a group; -1 for none."""

    group: str
    partition: int
    offset: int
    begun_s: float
    ended_s: float


@dataclass(slots=True, frozen=True)
class Watermark:
    """A broker said where a partition ends."""

    broker: str
    partition: int
    high: int
    begun_s: float
    ended_s: float


@dataclass(slots=True, frozen=True)
class Stored:
    """A PUT passed a broker's door to the bucket. Epochs: of the first and the last batch in it."""

    broker: str
    key: str
    digest: str
    begun_s: float
    ended_s: float
    outcome: str
    first_epoch: int = -1
    last_epoch: int = -1


@dataclass(slots=True, frozen=True)
class Removed:
    """A DELETE passed a broker's door to the bucket."""

    broker: str
    key: str
    begun_s: float


@dataclass(slots=True, frozen=True)
class Listed:
    """An object that was in the bucket at the end."""

    key: str
    digest: str


@dataclass(slots=True, frozen=True)
class Found:
    """A record in the log at the end, read anew, with the epoch its batch carries."""

    partition: int
    offset: int
    value: str
    epoch: int = -1


@dataclass(slots=True, frozen=True)
class Fault:
    """What the nemesis did, to which target, from when to when."""

    name: str
    target: str
    begun_s: float
    ended_s: float


@dataclass(slots=True, frozen=True)
class Trouble:
    """A worker failed at something, and a user would have noticed."""

    worker: str
    what: str
    at_s: float


_KINDS: Final = {
    "sends": Send,
    "polls": Poll,
    "commits": Commit,
    "fetched": Fetched,
    "watermarks": Watermark,
    "stored": Stored,
    "removed": Removed,
    "listed": Listed,
    "found": Found,
    "faults": Fault,
    "troubles": Trouble,
}


@dataclass(slots=True)
class History:
    """All events of a run. Lists only grow, so several threads may write."""

    partitions: int
    idempotent: set[str] = field(default_factory=set)
    moves: int = 0  # of topics from one layout to another, as many as were asked for
    lives: int = 0  # of topics that came and went beside those that are judged
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    fetched: list[Fetched] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    def acknowledged(self) -> list[Send]:
        return [send for send in self.sends if send.outcome == OK]

    def save(self, path: Path) -> None:
        """One JSON line per event, the kind first."""
        head = {
            "partitions": self.partitions,
            "idempotent": sorted(self.idempotent),
            "moves": self.moves,
        }
        with path.open("w") as file:
            file.write(json.dumps(head) + "\n")
            for name in _KINDS:
                for event in getattr(self, name):
                    file.write(json.dumps([name, *asdict(event).values()]) + "\n")


def load(path: Path) -> History:
    with path.open() as file:
        return from_lines(json.loads(line) for line in file)


def from_lines(lines: Iterable[Any]) -> History:
    rows = iter(lines)
    head = next(rows)
    history = History(head["partitions"], set(head["idempotent"]), moves=head.get("moves", 0))
    for name, *values in rows:
        kind = _KINDS[name]
        names = [one.name for one in fields(kind)]
        getattr(history, name).append(kind(**dict(zip(names, values, strict=True))))
    return history
