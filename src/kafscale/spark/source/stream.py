"""The stream reader: offsets from trigger to trigger, and exactly the records between them.

Here: what Spark asks of a stream. This object lives in one process beside the driver from the
query's start to its end; workers get a copy that only reads.
Next door: the arithmetic (plan/offsets.py), batch queries (source.py), tasks (rows/tasks.py).

Spark 4.0 has neither read limits nor Trigger.AvailableNow for Python sources: there the limits of
the options are kept here, and AvailableNow ends after one batch.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafscale.model.errors import UnknownTopic
from kafscale.spark.bucket import Bucket
from kafscale.spark.errors import rows_without_traceback, without_traceback
from kafscale.spark.source.plan import offsets, planning, splits, times
from kafscale.spark.source.plan.offsets import DataLost, PartitionOffsets
from kafscale.spark.source.plan.options import Options
from kafscale.spark.source.rows.columns import WantedColumns
from kafscale.spark.source.rows.tasks import SplitPartition, read_rows, split_of
from kafscale.spark.views import PartitionView

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as AvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as AvailableNow
    except ImportError:  # Spark before 4.2

        class AvailableNow:
            """Stands in for the class that this Spark lacks."""


class StreamReader(DataSourceStreamReader, AvailableNow):
    """Follows partitions from offset to offset."""

    def __init__(self, options: Options, asked: WantedColumns) -> None:
        self._options = options
        self._asked = asked
        self._bucket = Bucket(options.store)
        self._seen: dict[offsets.TopicPartition, PartitionView] = {}
        self._target: PartitionOffsets | None = None
        self._reached: PartitionOffsets = {}
        self._moved_s = self._bucket.clock.elapsed_s()

    def __getstate__(self) -> dict[str, Any]:
        """Workers read; what they read is in their partition."""
        return {**self.__dict__, "_seen": {}, "_reached": {}, "_target": None}

    # -- how far -----------------------------------------------------------------------------

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins."""
        views = self._look().values()
        offsets.refuse_unknown_partitions(self._options.starting, views, "starting")
        offsets_found = offsets.resolve(
            self._options.starting,
            views,
            lambda view, time_ms: times.first_at_or_after(self._bucket, view, time_ms),
            side="starting",
            no_match_is_latest=self._options.no_match_is_latest,
        )
        self._reached = offsets_found
        return offsets.to_json(offsets_found)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """What the options ask for, in Spark's words."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

        if self._options.max_offsets_per_trigger:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @without_traceback
    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """How far the next batch goes."""
        begin = self._reached if start is None else offsets.from_json(start)
        views = self._look(begin)
        latest = {place: view.end for place, view in views.items()}
        if self._target is not None:
            latest = {
                place: min(end, self._target[place])
                for place, end in latest.items()
                if place in self._target
            }
        # A partition that was not there before begins at its start.
        begin = {place: begin.get(place, views[place].start) for place in latest}
        end = self._limited(begin, latest, limit)
        if end != begin:
            self._moved_s = self._bucket.clock.elapsed_s()
        self._reached = end
        return offsets.to_json(end)

    def _limited(
        self, begin: PartitionOffsets, latest: PartitionOffsets, limit: Any
    ) -> PartitionOffsets:
        if type(limit).__name__ == "ReadAllAvailable":
            return latest
        waiting = sum(max(0, end - begin[place]) for place, end in latest.items())
        waited_ms = (self._bucket.clock.elapsed_s() - self._moved_s) * 1000
        too_few = waiting < self._options.min_offsets_per_trigger
        if too_few and self._target is None and waited_ms < self._options.max_trigger_delay_ms:
            return begin
        return offsets.limited(begin, latest, self._options.max_offsets_per_trigger)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let this run read what is there now, and no more."""
        self._target = {place: view.end for place, view in self._look().items()}

    @without_traceback
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the logs, for the query's progress: what is missing to them is the lag."""
        return offsets.to_json({place: view.end for place, view in self._look().items()})

    # -- what --------------------------------------------------------------------------------

    @without_traceback
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Tasks for exactly the offsets from start to end."""
        begin, until = offsets.from_json(start), offsets.from_json(end)
        views = self._seen
        if any(place not in views or views[place].end < last for place, last in until.items()):
            views = self._look(begin)
        strict = self._options.fail_on_data_loss
        slices = []
        for place, last in until.items():
            view = views.get(place)
            if view is None:
                continue  # deleted meanwhile, and the query was told to go on
            first = begin.get(place, view.start)
            if first > last and not strict:
                first = view.start
            low, high = offsets.within(view, first, last, fail_on_data_loss=strict)
            if low < high:
                slices.append(splits.window(view, low, high))
        return [
            SplitPartition(split) for split in planning.cut(self._bucket, self._options, slices)
        ]

    @rows_without_traceback
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task."""
        return read_rows(self._options, self._asked, split_of(partition), None)

    # -- the bucket --------------------------------------------------------------------------

    def _look(
        self, begin: Mapping[offsets.TopicPartition, int] | None = None
    ) -> dict[Any, PartitionView]:
        """All partitions as they are now, having checked that none went back."""
        try:
            views_now = planning.views(self._bucket, self._options)
        except UnknownTopic as gone:
            if not begin:
                raise
            if self._options.fail_on_data_loss:
                raise DataLost(f"{gone}; the query followed it") from gone
            views_now = self._those_left()
        views = {(view.topic, view.partition): view for view in views_now}
        for place, reached in (begin or {}).items():
            self._check(place, reached, views.get(place))
        self._seen = views
        return views

    def _those_left(self) -> list[PartitionView]:
        """Of the topics that were named, those that still exist."""
        names = self._options.subscribe or tuple(self._options.assign)
        pattern = "|".join(map(re.escape, names))
        options = replace(self._options, subscribe=(), assign={}, pattern=pattern)
        assigned = self._options.assign
        return [
            view
            for view in planning.views(self._bucket, options)
            if not assigned or view.partition in assigned[view.topic]
        ]

    def _check(
        self, place: offsets.TopicPartition, reached: int, view: PartitionView | None
    ) -> None:
        if self._options.fail_on_data_loss and (view is None or view.end < reached):
            has = "is gone" if view is None else f"ends at {view.end} now"
            raise DataLost(
                f"{place[0]}-{place[1]} was read up to {reached} and {has}: deleted, or deleted "
                "and created again (failOnDataLoss=false goes on with what is there)"
            )
