"""What is shown of logs and of the partitions in them, looked at when somebody scrapes.

Here: rows of numbers, so many and no more, from memory alone. Who has a row is settled when logs,
lanes or topics come and go; a scrape in between only reads numbers off.
Next door: the series' names (series.py), which logs are open (logs.py).

A log that is not open on this broker has no row: its owner shows it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import places
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.model.metric_names import SHARED
from kafscale.virtual.arithmetic import partition_of

MOST_LOGS: Final = 500
MOST_PARTITIONS: Final = 2_000

Row = tuple[Sequence[str], float]
_Labels = tuple[str, str]


class LogGauges:
    """At most `most_logs` logs and `most_partitions` partitions of this broker."""

    def __init__(
        self,
        each_log: Callable[[], Iterable[tuple[Topic | None, Log]]],
        residents: Callable[[str], Mapping[int, tuple[Topic, int]]],
        revision: Callable[[], int],
        most_logs: int = MOST_LOGS,
        most_partitions: int = MOST_PARTITIONS,
    ) -> None:
        """Ask for open logs with their topics, none where many share one; whose its lanes are.

        `revision` changes when topics do.
        """
        self._each_log = each_log
        self._residents = residents
        self._revision = revision
        self._most_logs = most_logs
        self._most_partitions = most_partitions
        self._seen: list[object] = []
        self._logs: list[tuple[_Labels, Log]] = []
        self._partitions: list[tuple[_Labels, Lane]] = []
        self.logs_untracked = 0
        self.partitions_untracked = 0

    def look(self) -> None:
        """Settle who has a row, if anything has come or gone. The others give what this found."""
        found = [row for row in self._each_log() if _lies_there(*row)]
        seen: list[object] = [self._revision(), *((log, len(log.lanes)) for _, log in found)]
        if seen == self._seen:
            return
        self._seen = seen
        found.sort(key=lambda row: row[0] is not None)  # those of many topics come first
        self._logs = [
            ((SHARED if topic is None else topic.name, str(places.number_of(log.folder))), log)
            for topic, log in found[: self._most_logs]
        ]
        self.logs_untracked = len(found) - len(self._logs)
        self._settle_partitions(found)

    def _settle_partitions(self, found: Iterable[tuple[Topic | None, Log]]) -> None:
        rows: list[tuple[_Labels, Lane]] = []
        self._partitions = rows
        beyond = 0
        for topic, log in found:
            if len(rows) >= self._most_partitions:
                beyond += len(log.lanes)
                continue
            whose = self._shared(log) if topic is None else _own(topic, log)
            for labels, lane in whose:
                if len(rows) < self._most_partitions:
                    rows.append((labels, lane))
                else:
                    beyond += 1
        self.partitions_untracked = beyond

    def _shared(self, log: Log) -> Iterator[tuple[_Labels, Lane]]:
        residents = self._residents(log.folder)
        for number, lane in log.lanes.items():
            if number in residents:  # else its topic is gone
                topic, partition = residents[number]
                yield (topic.name, str(partition)), lane

    # -- rows --------------------------------------------------------------------------------

    def lanes(self) -> Iterator[Row]:
        """How many lanes of a log are known. Looks first, for all that follow in a scrape."""
        self.look()
        return self._of_logs(lambda log: len(log.lanes))

    def end_positions(self) -> Iterator[Row]:
        """How many records were ever committed to a log."""
        return self._of_logs(lambda log: log.committed.end)

    def tail_objects(self) -> Iterator[Row]:
        """Flushes that wait to be rolled up."""
        return self._of_logs(lambda log: len(log.committed.tail))

    def live_bytes(self) -> Iterator[Row]:
        """Bytes of batches that can be read."""
        return self._of_logs(lambda log: sum(lane.held_bytes for lane in log.lanes.values()))

    def dead_bytes(self) -> Iterator[Row]:
        """Bytes of deleted batches in objects that stay because others are in them, too."""
        return self._of_logs(lambda log: log.committed.dead_bytes)

    def _of_logs(self, look: Callable[[Log], int]) -> Iterator[Row]:
        return ((labels, look(log)) for labels, log in self._logs)

    def records(self) -> Iterator[Row]:
        """Offsets between a partition's log start and its high watermark."""
        return ((labels, lane.high - lane.start) for labels, lane in self._partitions)

    def partition_bytes(self) -> Iterator[Row]:
        """Bytes of a partition's batches in the bucket."""
        return ((labels, lane.held_bytes) for labels, lane in self._partitions)


def _lies_there(topic: Topic | None, log: Log) -> bool:
    """Not where a topic that moves is going: one partition has one row."""
    return topic is None or log.folder.rpartition("/")[0] == topic.descriptor.folder


def _own(topic: Topic, log: Log) -> Iterator[tuple[_Labels, Lane]]:
    number, logs = places.number_of(log.folder), topic.descriptor.logs
    for at, lane in log.lanes.items():
        yield (topic.name, str(partition_of(number, at, logs))), lane
