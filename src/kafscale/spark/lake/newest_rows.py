"""Which row of a key is the newest, and the hash that keys are shared out by.

Here: arithmetic on Arrow tables. In one partition the offset decides. A key lies in several
partitions only if partitions were added or a producer chose others: then the later timestamp
decides, of equal ones the higher partition.
Next door: the rounds that use it (upsert.py).
"""

import zlib
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafscale.spark.kernels.arrays import BoolArray, LongArray

DELETED: Final = "__deleted"  # of staged rows: the record was a tombstone
HASH_BITS: Final = 32


def with_marks(columns: pa.Schema) -> pa.Schema:
    """The columns of a table, and whether a row is to go."""
    return columns.append(pa.field(DELETED, pa.bool_()))


def newest(rows: pa.Table) -> pa.Table:
    """The newest row of each key, in any order; all rows have a key."""
    if rows.num_rows < 2:
        return rows
    codes = _codes(rows.column("_key"))
    partitions = rows.column("_partition").cast(pa.int64()).to_numpy()
    offsets = rows.column("_offset").to_numpy()
    order = np.lexsort((offsets, partitions, codes))
    last = _last_of(codes[order], partitions[order])
    chosen = order[last]
    times = pc.fill_null(rows.column("_timestamp").cast(pa.int64()), 0).to_numpy()
    order = chosen[np.lexsort((partitions[chosen], times[chosen], codes[chosen]))]
    winners = order[_last_of(codes[order])]
    return rows.take(pa.array(np.sort(winners)))


def _last_of(*sorted_columns: LongArray) -> BoolArray:
    """Where a run of equal rows ends."""
    is_last = np.zeros(len(sorted_columns[0]), np.bool_)
    is_last[-1] = True
    for column in sorted_columns:
        is_last[:-1] |= column[1:] != column[:-1]
    return is_last


def _codes(keys: pa.ChunkedArray) -> LongArray:
    """A number for each key, equal for equal keys."""
    encoded = keys.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes: LongArray = encoded.indices.cast(pa.int64()).to_numpy()
    return codes


def hashes(keys: pa.ChunkedArray) -> LongArray:
    """A hash of each key that never changes: files of a table are found by it."""
    encoded = keys.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    each = np.fromiter(
        (zlib.crc32(key) for key in encoded.dictionary.to_pylist()),
        np.int64,
        len(encoded.dictionary),
    )
    if not len(each):
        return np.zeros(0, np.int64)
    found: LongArray = each[encoded.indices.cast(pa.int64()).to_numpy()]
    return found
