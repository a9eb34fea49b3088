"""Values in Avro's binary form of one record schema.

Next door: values that name their schema by a number (framed.py).
"""

import json
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from kafscale.model.errors import InvalidRequest
from kafscale.spark.values.decoding import Decoded, apart, cast
from kafscale.spark.values.types import plain_schema

T = TypeVar("T")


class AvroValues:
    """Reads what was written with one schema."""

    def __init__(self, schema: str) -> None:
        import pyruhvro

        try:
            is_record = json.loads(schema)["type"] == "record"
            arrow_schema = _asked(pyruhvro.avro_to_arrow_schema, schema) if is_record else None
        except (ValueError, KeyError, TypeError) as bad:
            raise InvalidRequest(f"not an Avro record schema: {bad}") from bad
        if arrow_schema is None:
            raise InvalidRequest("not an Avro record schema: values are records")
        self.schema = plain_schema(arrow_schema)
        self._read: Callable[[list[bytes], str], pa.RecordBatch] = pyruhvro.deserialize_array
        self._text = schema

    def decode(self, values: pa.Array) -> Decoded:
        """Columns of the values that are records of the schema."""
        return apart(values, self._columns, self.schema, "not Avro of this schema")

    def _columns(self, values: pa.Array) -> list[pa.Array]:
        return cast(_asked(self._read, values.to_pylist(), self._text), self.schema)


def _asked(work: Callable[..., T], *words: object) -> T:
    """Ask the library. Where it does not know a type it panics, which is no Exception."""
    try:
        return work(*words)
    except BaseException as failed:
        if type(failed).__name__ != "PanicException":
            raise
        raise ValueError(f"not supported: {failed}") from failed
