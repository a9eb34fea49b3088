"""Gauges of open logs and their partitions, read at each scrape.

Here: a bounded number of rows, from memory alone. Which logs and partitions have a row changes only
when logs, lanes or topics come and go; a scrape in between only reads numbers.
Next door: the names of the series (series.py), the open logs (partitions/open_logs.py).

A log that is not open on this broker has no row: its owner shows it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import places
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.model.metrics.metric_names import SHARED
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
        """`each_log` gives the open logs with their topics, None for a shared log.

        `residents` gives the topic and partition of each lane of a shared log. `revision` changes
        when topics change.
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

    def update(self) -> None:
        """Choose the logs and partitions that have rows, if any have come or gone."""
        open_logs = [(topic, log) for topic, log in self._each_log() if _is_home(topic, log)]
        seen: list[object] = [self._revision(), *((log, len(log.lanes)) for _, log in open_logs)]
        if seen == self._seen:
            return
        self._seen = seen
        open_logs.sort(key=lambda pair: pair[0] is not None)  # shared logs come first
        self._logs = [
            ((SHARED if topic is None else topic.name, str(places.number_of(log.folder))), log)
            for topic, log in open_logs[: self._most_logs]
        ]
        self.logs_untracked = len(open_logs) - len(self._logs)
        self._choose_partitions(open_logs)

    def _choose_partitions(self, open_logs: Iterable[tuple[Topic | None, Log]]) -> None:
        rows: list[tuple[_Labels, Lane]] = []
        self._partitions = rows
        untracked = 0
        for topic, log in open_logs:
            if len(rows) >= self._most_partitions:
                untracked += len(log.lanes)
                continue
            partitions = self._shared(log) if topic is None else _own(topic, log)
            for labels, lane in partitions:
                if len(rows) < self._most_partitions:
                    rows.append((labels, lane))
                else:
                    untracked += 1
        self.partitions_untracked = untracked

    def _shared(self, log: Log) -> Iterator[tuple[_Labels, Lane]]:
        residents = self._residents(log.folder)
        for number, lane in log.lanes.items():
            if number in residents:  # else its topic was deleted
                topic, partition = residents[number]
                yield (topic.name, str(partition)), lane

    # -- rows --------------------------------------------------------------------------------

    def lanes(self) -> Iterator[Row]:
        """How many lanes a log has. Updates the rows, for all series that follow in a scrape."""
        self.update()
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
        """Bytes of deleted batches in objects that also have batches that can be read."""
        return self._of_logs(lambda log: log.committed.dead_bytes)

    def _of_logs(self, read: Callable[[Log], int]) -> Iterator[Row]:
        return ((labels, read(log)) for labels, log in self._logs)

    def records(self) -> Iterator[Row]:
        """Offsets between a partition's log start and its high watermark."""
        return ((labels, lane.high - lane.start) for labels, lane in self._partitions)

    def partition_bytes(self) -> Iterator[Row]:
        """Bytes of a partition's batches in the bucket."""
        return ((labels, lane.held_bytes) for labels, lane in self._partitions)


def _is_home(topic: Topic | None, log: Log) -> bool:
    """Whether the topic is served from this log; a topic that moves also fills other logs."""
    return topic is None or log.folder.rpartition("/")[0] == topic.descriptor.folder


def _own(topic: Topic, log: Log) -> Iterator[tuple[_Labels, Lane]]:
    number, logs = places.number_of(log.folder), topic.descriptor.logs
    for lane_number, lane in log.lanes.items():
        yield (topic.name, str(partition_of(number, lane_number, logs))), lane
