"""What clients saw, and what must not be among it.

In this room: one run's observations and the pure check over them.
Next door: lost, doubled and reordered records (tests/support/history.py).
Never here: clients, time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.history import History, Log, problems


@dataclass(frozen=True, slots=True)
class Seen:
    """Somebody was told a number: a watermark, a committed offset."""

    who: str
    asked_s: float
    told_s: float
    number: int


@dataclass(slots=True)
class Notes:
    """One run."""

    histories: list[History] = field(default_factory=list)
    records: dict[tuple[int, int], bytes] = field(default_factory=dict)
    ends: dict[int, list[Seen]] = field(default_factory=dict)  # per partition
    committed: dict[int, list[Seen]] = field(default_factory=dict)  # acknowledged commits
    resumed: dict[int, list[Seen]] = field(default_factory=dict)  # offsets members were told
    broken: list[str] = field(default_factory=list)
    reads: int = 0

    def read(self, who: str, partition: int, offset: int, value: bytes) -> None:
        """A record was handed out."""
        self.reads += 1
        before = self.records.setdefault((partition, offset), value)
        if before != value:
            self.broken.append(
                f"offset reuse: {partition}/{offset} was {before!r}, and {value!r} for {who}"
            )

    def problems(self, log: Log, one_truth: bool) -> list[str]:
        """Everything that must not be. `log`: what is there in the end.

        `one_truth`: no two brokers served a partition at once, so nobody may see it shrink.
        """
        found = [*self.broken, *problems(self.histories, log), *self._vanished(log)]
        found += self._undone_commits()
        if one_truth:
            found += self._shrunk()
        return found

    def _vanished(self, log: Log) -> Iterator[str]:
        """Whatever a reader was handed stays."""
        there = {(p, offset): value for p, rows in log.items() for offset, value in rows}
        for (partition, offset), value in sorted(self.records.items()):
            if (partition, offset) not in there:
                yield f"vanished: {value!r} was read at {partition}/{offset} and is gone"
            elif there[partition, offset] != value:
                yield f"changed: {partition}/{offset} was read as {value!r}"

    def _undone_commits(self) -> Iterator[str]:
        for partition, told in sorted(self.resumed.items()):
            for seen in told:
                for done in self.committed.get(partition, ()):
                    if done.told_s < seen.asked_s and seen.number < done.number:
                        yield (
                            f"undone commit: {done.who} committed {done.number} of {partition} "
                            f"by {done.told_s:.3f}, {seen.who} was told {seen.number} after "
                            f"{seen.asked_s:.3f}"
                        )
                        break

    def _shrunk(self) -> Iterator[str]:
        for partition, told in sorted(self.ends.items()):
            highest = Seen("", 0.0, 0.0, -1)
            for seen in sorted(told, key=lambda one: one.told_s):
                if seen.number < highest.number and seen.asked_s > highest.told_s:
                    yield (
                        f"watermark back: {partition} ended at {highest.number} for "
                        f"{highest.who} by {highest.told_s:.3f}, at {seen.number} for "
                        f"{seen.who} after {seen.asked_s:.3f}"
                    )
                    break
                if seen.number > highest.number:
                    highest = seen
