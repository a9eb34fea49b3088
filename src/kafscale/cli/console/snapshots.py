"""Snapshots for the console, by the room that knows them (spark/source/pins.py).

It is imported when the first page asks: its libraries take memory.
"""

from typing import TYPE_CHECKING

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.store_shapes import NewSnapshot, SnapshotRow
from kafscale.settings.config import Config

if TYPE_CHECKING:
    from kafscale.console.records.as_of import SnapshotPartition
    from kafscale.spark.bucket import Bucket
    from kafscale.spark.source.pins import NamedSnapshot


class StoredSnapshots:
    """The snapshots of the configured bucket."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def find_all(self) -> list[SnapshotRow]:
        """All of them, by name."""
        from kafscale.spark.source import pins

        bucket = self._bucket()
        now_ms = bucket.run(lambda store: store.now_ms())
        return [self._row(one, now_ms) for one in pins.find_all(bucket)]

    def take(self, wanted: NewSnapshot) -> SnapshotRow:
        """Take one."""
        from kafscale.spark.source import pins

        try:
            made = pins.take(self._bucket(), wanted.name, wanted.topics, wanted.keep_s * 1000)
        except pins.SnapshotError as bad:
            raise ApiRefusal("exists", str(bad)) from bad
        return self._row(made, made.created_ms)

    def release(self, name: str) -> None:
        """Give one up."""
        from kafscale.spark.source import pins

        try:
            pins.release(self._bucket(), name)
        except pins.SnapshotError as bad:
            raise ApiRefusal("unknown_snapshot", str(bad)) from bad

    def partitions_of(self, name: str, topic: str) -> "list[SnapshotPartition]":
        """What a snapshot holds of a topic."""
        from kafscale.admin.bucket.stored_records import StoredPart
        from kafscale.console.records.as_of import SnapshotPartition
        from kafscale.spark.source import pins

        try:
            snapshot = pins.read(self._bucket(), name)
        except pins.SnapshotError as bad:
            raise ApiRefusal("unknown_snapshot", str(bad), field="snapshot") from bad
        found = [
            SnapshotPartition(
                view.partition,
                view.start,
                view.end,
                tuple(
                    StoredPart(
                        part.key,
                        part.lane,
                        part.first,
                        part.last,
                        part.start,
                        part.length,
                        part.max_timestamp_ms,
                        part.has_index,
                        part.aborted,
                    )
                    for part in view.stored_ranges
                ),
            )
            for view in snapshot.partitions
            if view.topic == topic
        ]
        if not found:
            message = f"the snapshot {name!r} does not hold the topic {topic}"
            raise ApiRefusal("unknown_topic", message, field="snapshot")
        return found

    def _bucket(self) -> "Bucket":
        from kafscale.spark.bucket import Bucket

        config = self._config
        place = (
            config.s3.url
            if config.store_kind == "s3"
            else f"file://{config.objects_dir.absolute()}"
        )
        return Bucket(f"{place}/{config.storage.namespace}")

    def _row(self, snapshot: "NamedSnapshot", now_ms: int) -> SnapshotRow:
        return SnapshotRow(
            name=snapshot.name,
            taken_ms=snapshot.created_ms,
            expires_ms=snapshot.expires_ms,
            expired=snapshot.expires_ms <= now_ms,
            topics=[topic.name for topic in snapshot.topics],
            records=sum(view.end - view.start for view in snapshot.partitions),
            bytes=_held(snapshot),
            month=_held(snapshot) / (1 << 30) * self._config.prices.storage_gb_month,
        )


def _held(snapshot: "NamedSnapshot") -> int:
    """Bytes of records that it keeps; most of them may be live anyway."""
    return sum(part.length for view in snapshot.partitions for part in view.stored_ranges)
