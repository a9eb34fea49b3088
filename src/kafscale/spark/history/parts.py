"""What of a topic is read from its table, and where the log's part begins.

Here: whether the table can stand for the log, and the exact offset of each partition where the two
meet. The table's files and its progress are of one version, so no record comes twice and none is
missing, while exports commit underneath.
Next door: reading the files (files.py, frames.py), tables (lake/).

It is the log alone where the table cannot stand for it: no table, an upsert table, a topic whose
name was used before, values that are asked for in another form than the table has or that the
topic's settings alone do not explain (Protobuf, registries), options that choose offsets or a
snapshot.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kafscale.model.configs.table_settings import TableSettings
from kafscale.model.errors import KafscaleError
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.lake.backlog import progress_name
from kafscale.spark.lake.table import BUCKET_CATALOG, TableFile
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.tables import open_table, table_url
from kafscale.spark.source.plan.options import Options


class TablePart(NamedTuple):
    """One version of a topic's table."""

    topic: TopicDescriptor
    place: TableFolder
    files: list[TableFile]
    dead_place: TableFolder
    dead_files: list[TableFile]  # of records whose values could not be read
    reached: dict[int, int]  # of each partition: the first offset that is not in the table

    def starts(self, log_starts: Mapping[int, int]) -> dict[int, int]:
        """Where the log's part begins, by partition."""
        return {
            number: max(start, self.reached.get(number, 0)) for number, start in log_starts.items()
        }

    @property
    def timestamp_type(self) -> int:
        """Of every row: 1 if brokers stamp the records of this topic."""
        kind = self.topic.configs.get("message.timestamp.type", "CreateTime")
        return int(kind == "LogAppendTime")


def table_part(bucket: Bucket, topic: TopicDescriptor, options: Options) -> TablePart | None:
    """What the table has of the topic now; None: read the log alone.

    Take this first and look at the log afterwards: what left the log meanwhile is in neither.
    """
    settings = topic.table
    if settings is None or not _stands_for_log(topic, settings, options):
        return None
    try:
        part = _newest(bucket, topic, settings)
    except (KafscaleError, ImportError):
        return None  # the log has everything that counts
    if part is None or (part.dead_files and options.shape.bad_records != "null"):
        return None
    return part


def as_declared(given: Mapping[str, str], settings: TableSettings) -> dict[str, str]:
    """Options with which the log's values are read as the table's were, unless they say how."""
    known = {name.lower(): value for name, value in given.items()}
    if (
        not _is_readable(settings)
        or known.get("valueformat", settings.value_format) != settings.value_format
    ):
        return dict(given)
    declared = {"valueFormat": settings.value_format, "valueSchema": settings.value_schema}
    if "mode" not in known:
        declared["badRecords"] = "null"
    added = {name: text for name, text in declared.items() if text and name.lower() not in known}
    return {**given, **added}


def _stands_for_log(topic: TopicDescriptor, settings: TableSettings, options: Options) -> bool:
    shape = options.shape
    if settings.upsert or not _is_readable(settings):
        return False
    if topic.incarnation > 1 or settings.value_framing != "none" or shape.value_framing != "none":
        return False
    if options.as_of or options.assign or not options.committed or shape.table != "records":
        return False
    if options.starting.kind != "earliest" or options.ending.kind != "latest":
        return False
    if shape.bad_records == "column" or shape.value_schema_file:
        return False
    asked = shape.value_format, shape.value_schema
    return asked == (settings.value_format, settings.value_schema)


def _is_readable(settings: TableSettings) -> bool:
    """Whether the topic's settings alone say how values of the log are read as the table's were."""
    if settings.value_format == "avro" and not settings.registry:
        return settings.value_framing == "none" and _has_required_field(settings.value_schema)
    return settings.value_format not in ("avro", "protobuf")


def _has_required_field(avro: str) -> bool:
    """Whether a row of nulls can only be a record without a value."""
    kinds = [field["type"] for field in msgspec.json.decode(avro)["fields"]]
    return any("null" not in kind if isinstance(kind, list) else kind != "null" for kind in kinds)


def _newest(bucket: Bucket, topic: TopicDescriptor, settings: TableSettings) -> TablePart | None:
    catalog = BUCKET_CATALOG if settings.format == "iceberg" else ""
    table = open_table(table_url(bucket, topic), settings.format, catalog)
    names = {progress_name(topic, number): number for number in range(topic.partitions)}
    state = table.state(names)
    if state is None or not state.progress:
        return None
    dead = table.dead_letters()
    # Dead letters are committed before the rows beside them: these are at least as new.
    dead_state = dead.state(())
    return TablePart(
        topic,
        table.place,
        state.files,
        dead.place,
        [] if dead_state is None else dead_state.files,
        {names[name]: offset for name, offset in state.progress.items()},
    )
