"""What is in one object of the bucket: a segment with its batches, an index, a document.

Next door: the objects of a log (log/protocol/survey.py), checkpoints (checkpoint_view.py), the
command (cli/bucket/segments.py).
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec

from kafscale.admin.bucket import checkpoint_view
from kafscale.log.formats import index, keys, segment
from kafscale.log.formats.segment import Segment
from kafscale.model.errors import CorruptObject
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.records.compression import Codec

ObjectKind = Literal["segment", "index", "manifest", "descriptor", "checkpoint", "document"]


class NotOurs(Exception):
    """The key names nothing that Kafscale writes."""


class LaneView(NamedTuple):
    """One lane's part of a segment; offsets and times are text, for readers that round."""

    lane: int
    first: str
    last: str
    records: int
    start: int
    bytes: int
    newest_ms: str | None


class BatchView(NamedTuple):
    """One batch of a segment."""

    lane: int
    byte: int
    first: str
    last: str
    records: int
    bytes: int
    codec: str
    newest_ms: str | None
    producer_id: str | None
    producer_epoch: int | None
    sequence: int | None
    transactional: bool
    control: bool
    crc_ok: bool


class IndexView(NamedTuple):
    """An entry of an index."""

    lane: int
    offset: str
    byte: int


@dataclass(slots=True)
class ObjectFacts:
    """An object, read."""

    kind: ObjectKind
    bytes: int
    facts: dict[str, str | int | None] = field(default_factory=dict)
    lanes: list[LaneView] = field(default_factory=list)
    batches: list[BatchView] = field(default_factory=list)
    index: list[IndexView] = field(default_factory=list)
    document: Any = None


async def view_object(store: ObjectStore, key: str) -> ObjectFacts:
    """Read an object. Raises NotOurs, ObjectMissing, CorruptObject or BadBatch."""
    if checkpoint_view.is_checkpoint(key):
        view = await checkpoint_view.read_checkpoint(store, key)
        tables = {"groups": list(view.groups.values()), "offsets": view.offsets}
        document = {**tables, "marks": view.marks, "brokers": view.brokers, "others": view.others}
        return ObjectFacts("checkpoint", 0, dict(view.facts), document=document)
    name = keys.parse_segment(key)
    if name is None and keys.parse_generation(key) is None:
        raise NotOurs("neither segment, index, checkpoint nor document")
    data = await store.read(key)
    if name is None:
        return _document(key, data)
    if name.is_index:
        return _index(data)
    return _segment(data, segment.parse(data))


def _document(key: str, data: memoryview) -> ObjectFacts:
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as bad:
        raise CorruptObject(f"not JSON: {bad}") from bad
    last = key.rpartition("/")[2]
    kind: ObjectKind = "document"
    if last.startswith("manifest-"):
        kind = "manifest"
    elif last.startswith("descriptor-"):
        kind = "descriptor"
    return ObjectFacts(kind, len(data), {"number": keys.parse_generation(key)}, document=value)


def _index(data: memoryview) -> ObjectFacts:
    table = index.decode(data)
    rows = []
    for address, position in zip(table.addresses, table.positions, strict=True):
        lane, offset = index.from_address(address)
        rows.append(IndexView(lane, str(offset), position))
    return ObjectFacts("index", len(data), {"interval": table.interval}, index=rows)


def _segment(data: memoryview, content: Segment) -> ObjectFacts:
    facts: dict[str, str | int | None] = {
        "first": str(content.base),
        "last": str(content.end - 1),
        "records": content.records,
        "created_ms": content.created_ms,
        "token": f"{content.content_id.token:08x}",
        "crc": f"{content.content_id.crc:08x}",
    }
    return ObjectFacts(
        "segment",
        len(data),
        facts,
        lanes=[
            LaneView(
                span.lane,
                str(span.first),
                str(span.last),
                span.records,
                span.start,
                span.length,
                _time(span.max_timestamp_ms),
            )
            for span in content.spans
        ],
        batches=[
            _batch(data, span.lane, position, header)
            for span in content.spans
            for position, header in batch.walk(data, span.start, span.start + span.length)
        ],
    )


def _batch(data: memoryview, lane: int, position: int, header: BatchHeader) -> BatchView:
    with_producer = header.producer_id >= 0
    return BatchView(
        lane,
        position,
        str(header.base_offset),
        str(header.last_offset),
        header.record_count,
        header.size,
        Codec(header.codec).name.lower() if header.codec in set(Codec) else str(header.codec),
        _time(header.max_timestamp_ms),
        str(header.producer_id) if with_producer else None,
        header.producer_epoch if with_producer else None,
        header.base_sequence if with_producer else None,
        header.is_transactional,
        header.is_control,
        batch.check_crc(data[position : position + header.size]),
    )


def _time(timestamp_ms: int) -> str | None:
    return str(timestamp_ms) if timestamp_ms >= 0 and timestamp_ms < 1 << 62 else None
