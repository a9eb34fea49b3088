"""The Iceberg tables of a bucket's topics.

Here: a topic with `table.format=iceberg` is a table of its name; its dead letters are another, if
there are any. Each request sees the newest version. Next door: what is answered (rest.py).
"""

from typing import Final

from kafscale.model.errors import KafscaleError, ObjectMissing, UnknownTopic
from kafscale.model.names import check_topic_name
from kafscale.model.topics import TopicDescriptor
from kafscale.settings import locations
from kafscale.spark.bucket import Bucket
from kafscale.spark.catalog.rest import ShownTable
from kafscale.spark.lake.bucket_catalog import METADATA, newest_version
from kafscale.spark.lake.table import DEAD_LETTERS
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.tables import table_url

_REACH: Final = ("s3.endpoint", "s3.region", "s3.path-style-access")


class IcebergTopics:
    """Topics as Iceberg tables."""

    def __init__(self, bucket: Bucket) -> None:
        """Nothing is read yet."""
        self._bucket = bucket

    @property
    def namespace(self) -> tuple[str, ...]:
        """The bucket's own."""
        return tuple(self._bucket.namespace.split("/"))

    def names(self) -> list[str]:
        """Topics whose tables exist, and their tables of dead letters."""
        names = []
        for topic in self._bucket.topics():
            if _is_shown(topic):
                place = TableFolder(table_url(self._bucket, topic))
                names += [topic.name] if newest_version(place) else []
                dead = place.beside(DEAD_LETTERS)
                names += [topic.name + DEAD_LETTERS] if newest_version(dead) else []
        return names

    def load(self, name: str) -> ShownTable | None:
        """A table by its topic's name; the topic of the whole name goes first."""
        place = self._place(name, "")
        if place is None and name.endswith(DEAD_LETTERS):
            place = self._place(name.removesuffix(DEAD_LETTERS), DEAD_LETTERS)
        if place is None:
            return None
        while number := newest_version(place):
            file = f"{METADATA}/v{number}.metadata.json"
            try:
                body = place.read(file)
            except ObjectMissing:
                continue  # so many commits came between: look again
            is_bucket = place.where.kind == "s3"
            where = place.path(file) if is_bucket else f"file://{place.path(file)}"
            return ShownTable(where, body, _reach() if is_bucket else {})
        return None

    def _place(self, name: str, suffix: str) -> TableFolder | None:
        try:
            check_topic_name(name)
            topic = self._bucket.topic(name)
        except (UnknownTopic, KafscaleError):
            return None
        if not _is_shown(topic):
            return None
        return TableFolder(table_url(self._bucket, topic) + suffix)


def _is_shown(topic: TopicDescriptor) -> bool:
    return topic.table is not None and topic.table.format == "iceberg"


def _reach() -> dict[str, str]:
    """Where the bucket is; a client brings its own credentials."""
    settings = locations.s3_settings("")
    facts = (settings.endpoint, settings.region, "true" if settings.path_style else "")
    return {name: value for name, value in zip(_REACH, facts, strict=True) if value}
