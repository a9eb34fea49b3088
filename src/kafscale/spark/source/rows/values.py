"""The column `value`, decoded in the reader.

Here: typed columns as one struct, and what becomes of values that are not what they should be:
an error, null, or null and a column of their own. Next door: the formats (values/).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.spark.source.plan.options import BadOption, Shape
from kafscale.spark.values import ddl, formats
from kafscale.spark.values.formats import Spec
from kafscale.spark.values.types import fit

BAD_VALUE: Final = "badValue"
# What Spark reads in a list of columns and we do not.
_SPARK_ALONE: Final = re.compile(
    r"\b(tinyint|byte|smallint|short|real|numeric|dec|char|varchar|timestamp_\w+|interval|variant|void"
    r"|null|comment|collate|default)\b",
    re.IGNORECASE,
)


class BadValue(KafscaleError):
    """A record's value is not what its format says."""


def load_spec(shape: Shape) -> Spec:
    """Read the schema file, on the driver: workers may not have it."""
    schema = shape.value_schema.encode()
    if shape.value_schema_file:
        try:
            schema = Path(shape.value_schema_file).read_bytes()
        except OSError as problem:
            raise BadOption(f"valueSchemaFile: {problem}") from problem
    spec = Spec(
        shape.value_format,
        schema,
        shape.value_message,
        shape.value_framing,
        shape.schema_registry,
        shape.subject,
    )
    if spec.format == "json":
        _check_columns(shape.value_schema)
        return spec  # its schema is Spark's own language, and Spark reads it
    try:
        return formats.checked(spec)
    except InvalidRequest as problem:
        raise BadOption(f"valueFormat: {problem}") from problem


def _check_columns(text: str) -> None:
    """Report what is wrong with a list of columns: Spark would report it of a generated text."""
    if _SPARK_ALONE.search(text):
        return
    try:
        ddl.parse(text)
    except InvalidRequest as problem:
        raise BadOption(f"valueSchema: {problem}") from problem


def natural_type(spec: Spec) -> pa.DataType | str:
    """The type a decoded value has by its own schema; Spark's words where they were given."""
    match spec.format:
        case "json":
            return f"struct<{spec.schema.decode()}>"
        case "avro" | "protobuf":
            return pa.struct(list(formats.columns_of(spec)))
        case _:
            return pa.string() if spec.format == "string" else pa.binary()


class ValueDecoder:
    """Replaces the column `value` of Arrow batches."""

    def __init__(self, spec: Spec, target: pa.DataType, bad_records: str) -> None:
        self._target = target
        self._bad = bad_records
        columns = pa.schema(list(target)) if pa.types.is_struct(target) else None
        self._decoder = formats.decoder_of(spec, columns)

    def apply(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """The wanted columns of a batch that has the raw value and the offset."""
        values = batch.column("value")
        decoded = self._decoder.decode(values)
        if decoded.bad and self._bad == "fail":
            at = min(decoded.bad)
            offset = batch.column("offset")[at].as_py()
            raise BadValue(
                f"the value at offset {offset} cannot be decoded: {decoded.bad[at]} "
                "(badRecords=null or badRecords=column reads on)"
            )
        bad = np.zeros(len(values), np.bool_)
        bad[list(decoded.bad)] = True
        made = {"value": self._column(values, decoded.columns, bad)}
        if BAD_VALUE in columns:
            made[BAD_VALUE] = pc.if_else(pa.array(bad), values, pa.scalar(None, pa.binary()))
        arrays = [made[name] if name in made else batch.column(name) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _column(self, values: pa.Array, columns: list[pa.Array], bad: np.ndarray) -> pa.Array:
        """All rows again, null where the value was null or bad."""
        if not pa.types.is_struct(self._target):
            good = fit(columns[0], self._target)
        else:
            missing = values.is_null().filter(pa.array(~bad)) if values.null_count else None
            good = pa.StructArray.from_arrays(columns, fields=list(self._target), mask=missing)
        if not bad.any():
            return good
        return good.take(pa.array(np.cumsum(~bad) - 1, mask=bad))
