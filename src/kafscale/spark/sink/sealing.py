"""Staged batches become segments: read back, given their offsets, laid down, indexed.

Here: how sections are shared out among segments, and the work on one segment. It may be done
twice (a retry, a speculative copy): every attempt writes under a name of its own, and only
what the driver then puts into a manifest counts.
Next door: what is staged (staging.py), the commit (bulk.py).
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafscale.log.formats import index, keys, segment
from kafscale.log.formats.manifest import SegmentEntry, entry_of
from kafscale.log.formats.places import LanePlace
from kafscale.log.formats.segment import Built, LaneBatches
from kafscale.log.protocol import commits, survey
from kafscale.model.buffers import Buffer
from kafscale.model.errors import CorruptObject
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.sink.staging import StagedSection

GENERATION: Final = 1  # of the one manifest a loaded log has
LEADER_EPOCH: Final = 0

MAP: Final = pa.schema(
    [
        ("source_partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # where first_offset went; the others follow it
    ]
)


_NUMBERS: Final = ("first_offset", "last_offset", "offset")


class Seal(NamedTuple):
    """One segment to be made."""

    partition: int
    place: LanePlace
    folder: str  # of the topic
    base: int  # its first position in the log
    first: int  # its first offset in the partition
    sections: tuple[StagedSection, ...]
    index_interval_bytes: int

    @property
    def until(self) -> int:
        """The offset after its last."""
        return self.first + sum(section.records for section in self.sections)


class Sealed(NamedTuple):
    """One segment made."""

    log: str  # its folder
    entry: SegmentEntry
    map_name: str = ""  # of the file that says where its rows came from


def plan(
    folder: str,
    sections: Iterable[StagedSection],
    places: Sequence[LanePlace],
    *,
    segment_bytes: int,
    index_interval_bytes: int,
) -> list[Seal]:
    """Lay every partition's sections, in the order given, into segments of about equal size.

    `places` are where the topic's partitions lie. Segments of one log divide its positions.
    """
    by_partition: dict[int, list[StagedSection]] = {}
    for section in sections:
        by_partition.setdefault(section.partition, []).append(section)
    ends: dict[str, int] = {}
    seals: list[Seal] = []
    for partition, rows in sorted(by_partition.items()):
        place, first = places[partition], 0
        for group in _groups(rows, segment_bytes):
            base = ends.get(place.folder, 0)
            seal_of_partition = Seal(
                partition, place, folder, base, first, group, index_interval_bytes
            )
            ends[place.folder] = base + seal_of_partition.until - first
            first = seal_of_partition.until
            seals.append(seal_of_partition)
    return seals


def _groups(
    rows: Sequence[StagedSection], segment_bytes: int
) -> Iterator[tuple[StagedSection, ...]]:
    group: list[StagedSection] = []
    size = 0
    for row in rows:
        if group and size + row.length > segment_bytes:
            yield tuple(group)
            group, size = [], 0
        group.append(row)
        size += row.length
    yield tuple(group)


def seal(bucket: Bucket, work: Seal) -> Sealed:
    """Make one segment."""
    lane = stamped(bucket, work)
    entry = put_segment(bucket, work.place, work.base, lane, work.index_interval_bytes)
    return Sealed(work.place.folder, entry, put_map(bucket, work))


def stamped(bucket: Bucket, work: Seal) -> LaneBatches:
    """What was staged for a segment, every batch with its offset."""
    pieces = bucket.run(_read, work.sections)
    at = work.first
    runs: list[Buffer] = []
    for section, piece in zip(work.sections, pieces, strict=True):
        run = bytearray(piece)
        first = at
        for place, header in batch.walk(run):
            batch.stamp(memoryview(run)[place:], at, LEADER_EPOCH)
            at += header.last_offset_delta + 1
        if len(run) != section.length or at - first != section.records:
            raise CorruptObject(f"{section.key} is not what was put there")
        runs.append(run)
    return LaneBatches(
        work.place.lane,
        work.first,
        at - 1,
        sum(section.records for section in work.sections),
        min(section.min_timestamp_ms for section in work.sections),
        max(section.max_timestamp_ms for section in work.sections),
        runs,
    )


def put_segment(
    bucket: Bucket, place: LanePlace, base: int, lane: LaneBatches, interval: int
) -> SegmentEntry:
    """Write a segment of one lane and its index under fresh names; it begins at `base`."""
    token = int.from_bytes(bucket.dice.token(4))
    built = build(bucket, base, lane._replace(lane=place.lane), token)
    name = keys.rewritten_name(built.base, GENERATION, token)
    key = f"{place.folder}/{name}"
    hints = index.encode(index.of_pieces(built.spans, [lane.batches], interval))

    async def put(store: ObjectStore) -> None:
        # Unique names: if one is taken, an earlier try of this attempt took it.
        await commits.put_same(store, keys.index_of(key), [hints], "index")
        await commits.put_same(store, key, built.body, "segment")

    bucket.run(put)
    return entry_of(name, built.base, built.end, built.content_id, built.spans, has_index=True)


def build(bucket: Bucket, base: int, lane: LaneBatches, token: int) -> Built:
    """A segment of one lane that fills its positions."""
    return segment.build(
        base,
        base + lane.last - lane.first + 1,
        [lane],
        created_ms=bucket.clock.now_ms(),
        token=token,
        predecessor=segment.NOTHING_BEFORE,
    )


async def _read(store: ObjectStore, sections: Sequence[StagedSection]) -> list[memoryview]:
    return await survey.await_limited(
        store.read(row.key, row.start, row.length) for row in sections
    )


# -- where rows came from --------------------------------------------------------------------


def put_map(bucket: Bucket, work: Seal) -> str:
    """Write down where each row of the segment came from, as runs of neighbours."""
    mapped = [row for row in work.sections if row.map_key]
    if not mapped:
        return ""

    async def read(store: ObjectStore) -> list[memoryview]:
        reads = (store.read(row.map_key, row.map_start, 8 * row.records) for row in mapped)
        return await survey.await_limited(reads)

    tables = []
    at = work.first
    for row, raw in zip(mapped, bucket.run(read), strict=True):
        offsets = np.frombuffer(raw, "<i8").astype(np.int64)
        begins = np.concatenate(([0], np.flatnonzero(np.diff(offsets) != 1) + 1))
        lasts = np.concatenate((begins[1:], [len(offsets)])) - 1
        columns = [
            np.full(len(begins), row.source, np.int32),
            offsets[begins],
            offsets[lasts],
            np.full(len(begins), work.partition, np.int32),
            begins + at,
        ]
        tables.append(pa.Table.from_arrays([pa.array(column) for column in columns], schema=MAP))
        at += row.records
    body = io.BytesIO()
    pq.write_table(
        pa.concat_tables(tables),
        body,
        compression="zstd",
        use_dictionary=["source_partition", "partition"],
        column_encoding=dict.fromkeys(
            ("first_offset", "last_offset", "offset"), "DELTA_BINARY_PACKED"
        ),
    )
    name = f"{bucket.dice.token(16).hex()}.parquet"
    bucket.put_new(f"{work.folder}/offset-map/{name}", [body.getvalue()])
    return name
