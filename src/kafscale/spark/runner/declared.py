"""From what a topic declares to what an export is asked to do.

Here: where a table lies, how values are read, and what a topic may ask for. A topic's settings come
from clients; the runner writes and sends credentials by them. So a table lies in the bucket's own
folder for tables unless the operator allows another place, and a registry is asked only if the
operator names it.
Next door: the settings (model/configs/table_settings.py), the export (jobs/export.py).
"""

from dataclasses import dataclass

from kafscale.model.configs.table_settings import TableSettings, protobuf_schema
from kafscale.model.errors import InvalidRequest
from kafscale.model.topics import TopicDescriptor
from kafscale.settings import locations
from kafscale.spark.bucket import Bucket
from kafscale.spark.jobs.export import ExportRequest
from kafscale.spark.lake.table import BUCKET_CATALOG
from kafscale.spark.lake.tables import table_url
from kafscale.spark.values import formats
from kafscale.spark.values.formats import Spec


@dataclass(frozen=True)
class Allowances:
    """What topics may ask for besides the bucket's own folder for tables."""

    locations: tuple[str, ...] = ()  # folders below which tables may lie
    registries: tuple[str, ...] = ()
    catalog: str = ""  # of Iceberg; empty: the tables' own folders


class NotAllowed(InvalidRequest):
    """The topic asks for what the operator of the pipeline has not allowed."""


def export_request(bucket: Bucket, topic: TopicDescriptor, allowed: Allowances) -> ExportRequest:
    """What to export the topic to; NotAllowed says which option of the runner would allow it."""
    table = topic.table
    if table is None:
        raise InvalidRequest(f"{topic.name} declares no table: table.format is none")
    url = table_url(bucket, topic)
    if table.location and not any(_is_below(url, root) for root in allowed.locations):
        raise NotAllowed(f"table.location {url}: start the runner with --allow-location {url}")
    if table.registry and table.registry not in allowed.registries:
        raise NotAllowed(
            f"table.schema.registry {table.registry}: start the runner with "
            f"--allow-registry {table.registry}"
        )
    return ExportRequest(
        url,
        table.format,
        (allowed.catalog or BUCKET_CATALOG) if table.format == "iceberg" else "",
        value_spec(table),
        table.partition_by,
        table.allow_gaps,
        upsert=table.upsert,
        file_bytes=table.file_bytes,
    )


def value_spec(table: TableSettings) -> Spec:
    """How values are read; the schema is the text itself, never the name of a file."""
    schema = table.value_schema.encode()
    if table.value_format == "protobuf" and schema:
        schema = protobuf_schema(table.value_schema)
    return formats.checked(
        Spec(
            table.value_format,
            schema,
            table.value_message,
            table.value_framing,
            table.registry,
            table.subject if table.registry else "",
        )
    )


def _is_below(url: str, root: str) -> bool:
    """Whether a folder is another one or lies in it."""
    folder, top = locations.locate_folder(url), locations.locate_folder(root)
    inner, outer = (
        f"{place.root}/{place.namespace}".rstrip("/").split("/") for place in (folder, top)
    )
    return folder.kind == top.kind and inner[: len(outer)] == outer and ".." not in inner
