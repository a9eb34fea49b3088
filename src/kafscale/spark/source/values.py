"""Values that are JSON, Avro or Protobuf, decoded in the reader.

Here: whole columns at once, by libraries that make Arrow of them (polars, pyruhvro, ptars); rows
that cannot be decoded are found by halving and become null, a column of their own, or an error.
Next door: where schemas come from (registry.py). Never here: Spark.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafscale.model.errors import KafscaleError
from kafscale.spark.source import registry
from kafscale.spark.source.options import BadOption, Shape

BAD_VALUE: Final = "badValue"
_PREFIX: Final = 5  # a zero byte and a schema's number, where a registry is used

Decode = Callable[[pa.BinaryArray], pa.Array]  # no nulls in; as many rows out, or any exception


class BadValue(KafscaleError):
    """A record's value is not what its format says."""


class Format(NamedTuple):
    """How values are to be decoded; travels to the workers with everything it needs."""

    kind: str
    schema: bytes
    message: str
    registry: str
    subject: str


def load_format(shape: Shape) -> Format:
    """Read the schema file, on the driver: workers may not have it."""
    schema = shape.value_schema.encode()
    if shape.value_schema_file:
        try:
            schema = Path(shape.value_schema_file).read_bytes()
        except OSError as problem:
            raise BadOption(f"valueSchemaFile: {problem}") from problem
    return Format(
        shape.value_format, schema, shape.value_message, shape.schema_registry, shape.subject
    )


def natural_type(given: Format) -> pa.DataType | str:
    """The type a decoded value has by its own schema; Spark's words where they were given."""
    match given.kind:
        case "json":
            return f"struct<{given.schema.decode()}>"
        case "avro":
            import pyruhvro

            schema = given.schema.decode() or registry.latest(given.registry, given.subject)
            return pa.struct(list(pyruhvro.avro_to_arrow_schema(schema)))
        case "protobuf":
            return pa.struct(list(_protobuf_handler(given).schema()))
        case _:
            return pa.string() if given.kind == "string" else pa.binary()


class ValueDecoder:
    """Replaces the column `value` of Arrow batches."""

    def __init__(self, given: Format, target: pa.DataType, bad_records: str) -> None:
        self._target = target
        self._bad = bad_records
        self._decode = _decoder(given, target)

    def apply(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """The wanted columns of a batch that has the raw value and the offset."""
        values = batch.column("value")
        decoded, bad = decode_all(values, self._decode, self._target)
        if bad.any() and self._bad == "fail":
            at = int(np.flatnonzero(bad)[0])
            offset = batch.column("offset")[at].as_py()
            raise BadValue(
                f"the value at offset {offset} cannot be decoded "
                "(badRecords=null or badRecords=column reads on)"
            )
        made = {"value": decoded}
        if BAD_VALUE in columns:
            made[BAD_VALUE] = pc.if_else(pa.array(bad), values, pa.scalar(None, pa.binary()))
        arrays = [made[name] if name in made else batch.column(name) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def decode_all(
    values: pa.BinaryArray, decode: Decode, target: pa.DataType
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """All values decoded, null where they were null or bad; and which were bad."""
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    present = values.drop_null()
    parts: list[pa.Array] = []
    good: list[npt.NDArray[np.int64]] = []
    # Halving finds one bad row among n with 2 log n attempts, and costs nothing without any.
    waiting = [(0, len(present))]
    while waiting:
        start, count = waiting.pop()
        if not count:
            continue
        try:
            found = decode(present.slice(start, count))
            if len(found) != count:
                raise BadValue(f"{count} values became {len(found)}")
        except Exception:  # whatever a library says about bytes it does not like: the row is bad
            if count > 1:
                half = count // 2
                waiting += [(start + half, count - half), (start, half)]
            continue
        parts.append(fit(found, target))
        good.append(np.arange(start, start + count))
    decoded = np.concatenate(good) if good else np.empty(0, np.int64)
    bad = np.zeros(len(values), np.bool_)
    bad[np.delete(rows, decoded)] = True
    places = np.zeros(len(values), np.int64)
    missing = np.ones(len(values), np.bool_)
    places[rows[decoded]] = np.arange(len(decoded))
    missing[rows[decoded]] = False
    if not parts:
        return pa.nulls(len(values), target), bad
    if not missing.any() and len(parts) == 1:
        return parts[0], bad
    return pa.concat_arrays(parts).take(pa.array(places, mask=missing)), bad


def fit(found: pa.Array, target: pa.DataType) -> pa.Array:
    """An array as Spark expects it: fields by name, those it lacks null."""
    if found.type == target:
        return found
    if not pa.types.is_struct(target):
        return found.cast(target)
    children = dict(zip((field.name for field in found.type), found.flatten(), strict=True))
    arrays = [
        fit(children[field.name], field.type)
        if field.name in children
        else pa.nulls(len(found), field.type)
        for field in target
    ]
    mask = found.is_null() if found.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=mask)


def _decoder(given: Format, target: pa.DataType) -> Decode:
    match given.kind:
        case "string":
            return lambda values: values.cast(pa.string())
        case "json":
            return _json(target)
        case "avro":
            return _framed_avro(given) if given.registry else _avro(given.schema.decode())
        case _:
            handler = _protobuf_handler(given)
            return lambda values: _as_struct(handler.list_to_record_batch(values.to_pylist()))


def _json(target: pa.DataType) -> Decode:
    import polars as pl

    dtype = pl.Series(pa.array([], target)).dtype

    def decode(values: pa.BinaryArray) -> pa.Array:
        text = values.cast(pa.string())
        # The rows are parsed as one text: each must be one object, or its neighbours would shift.
        objects = pc.match_substring_regex(text, r"^\s*\{(?s:.*)\}\s*$")
        if not pc.all(objects).as_py():
            raise BadValue("not an object")
        return pl.Series(text).str.json_decode(dtype).to_arrow()

    return decode


def _avro(schema: str) -> Decode:
    import pyruhvro

    return lambda values: _as_struct(pyruhvro.deserialize_array(values.to_pylist(), schema))


def _framed_avro(given: Format) -> Decode:
    """Values that name their schema: rows with equal numbers are decoded together."""
    by_number: dict[int, Decode] = {}
    natural = natural_type(given)

    def decode(values: pa.BinaryArray) -> pa.Array:
        raw = values.to_pylist()
        if any(len(one) < _PREFIX or one[0] for one in raw):
            raise BadValue("no schema's number before the value")
        numbers = np.array([int.from_bytes(one[1:_PREFIX], "big") for one in raw])
        parts, rows = [], []
        for number in np.unique(numbers).tolist():
            if number not in by_number:
                by_number[number] = _avro(registry.by_number(given.registry, number))
            mine = np.flatnonzero(numbers == number)
            bodies = pa.array([raw[row][_PREFIX:] for row in mine.tolist()], pa.binary())
            parts.append(fit(by_number[number](bodies), natural))
            rows.append(mine)
        order = np.argsort(np.concatenate(rows))
        return pa.concat_arrays(parts).take(pa.array(order))

    return decode


def _protobuf_handler(given: Format) -> Any:
    import ptars
    from google.protobuf import descriptor_pb2, descriptor_pool

    files = descriptor_pb2.FileDescriptorSet.FromString(given.schema)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    try:
        message = pool.FindMessageTypeByName(given.message)
    except KeyError:
        raise BadOption(f"valueMessage: the schema has no message {given.message!r}") from None
    return ptars.HandlerPool([message.file]).get_for_message(message)


def _as_struct(batch: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
