"""The schema registry of the console, by the room that knows registries (spark/values).

It is asked when the first record names a schema. Its address is a setting, never a record's.
"""

from kafscale.console.records.schemas import FoundSchema, SchemaUnusable


class RegistrySchemas:
    """Schemas of the configured registry."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def find(self, number: int) -> FoundSchema:
        """Ask for a schema."""
        from kafscale.spark.values import registry
        from kafscale.spark.values.protobuf_json import message_reader

        try:
            schema = registry.by_number(self._url, number)
            if schema.kind == "avro":
                return FoundSchema("avro", schema.body)
            return FoundSchema("protobuf", read=message_reader(schema.body))
        except ImportError as missing:
            raise SchemaUnusable(f"{missing.name} is not installed here") from missing
