"""Topics laid into a store by hand, object by object: no broker, any form of history.

Next door: brokers that write them in the ordinary way (broker.py).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafscale.log.formats import index, keys, manifest, segment
from kafscale.log.formats.manifest import LaneMark, Manifest, SegmentEntry
from kafscale.log.formats.segment import Built, ContentId, LaneBatches
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.records import batch

INTERVAL = 4096

Batches = Sequence[bytes]
Lanes = Mapping[int, Batches]  # one object: lane -> its batches


class Log(NamedTuple):
    """What a log is to consist of: objects named by a manifest, then flushes."""

    history: Sequence[Lanes] = ()
    tail: Sequence[Lanes] = ()
    starts: Mapping[int, int] = {}


async def lay(
    store: ObjectStore, name: str, partitions: int, logs: Sequence[Log], namespace: str = "default"
) -> TopicDescriptor:
    """Write a topic; partition p is lane `p // logs` of log `p % logs`."""
    folder = keys.topic_folder(namespace, name)
    topic = TopicDescriptor(
        name=name,
        topic_id=name.encode().hex().ljust(32, "0")[:32],
        incarnation=1,
        folder=folder,
        partitions=partitions,
        logs=len(logs),
        created_at="2026-01-01T00:00:00.000Z",
    )
    await store.put_new(keys.descriptor(folder, 1), [topic.encode()])
    for number, log in enumerate(logs):
        await lay_log(store, keys.log_folder(folder, number), log)
    return topic


async def lay_log(store: ObjectStore, folder: str, log: Log) -> None:
    at = 0
    before = segment.NOTHING_BEFORE
    entries: list[SegmentEntry] = []
    marks: dict[int, LaneMark] = {}
    for lanes in log.history:
        built = build_segment(at, lanes, before, token=at + 1)
        name = keys.rewritten_name(at, 1, at + 1)
        entries.append(await put_segment(store, folder, name, built, lanes))
        for span in built.spans:
            marks[span.lane] = LaneMark(log.starts.get(span.lane, 0), span.last + 1)
        at, before = built.end, built.content_id
    if log.history:
        newest = Manifest(
            generation=1,
            commit_id="laid",
            created_ms=0,
            author="tests",
            end=at,
            end_id=tuple(before),
            segments=entries,
            lanes=marks,
        )
        await store.put_new(keys.manifest(folder, 1), [manifest.encode(newest)])
    for lanes in log.tail:
        built = build_segment(at, lanes, before, token=at + 1)
        await put_segment(store, folder, keys.segment_name(at), built, lanes)
        at, before = built.end, built.content_id


def build_segment(base: int, lanes: Lanes, before: ContentId, token: int) -> Built:
    rows = []
    for lane, batches in sorted(lanes.items()):
        headers = [batch.read_header(one) for one in batches]
        rows.append(
            LaneBatches(
                lane,
                headers[0].base_offset,
                headers[-1].last_offset,
                sum(header.record_count for header in headers),
                min(header.base_timestamp_ms for header in headers),
                max(header.max_timestamp_ms for header in headers),
                batches,
            )
        )
    end = base + sum(row.last - row.first + 1 for row in rows)
    return segment.build(base, end, rows, created_ms=0, token=token, predecessor=before)


async def put_segment(
    store: ObjectStore, folder: str, name: str, built: Built, lanes: Lanes
) -> SegmentEntry:
    await store.put_new(f"{folder}/{name}", built.body)
    rows = [lanes[span.lane] for span in built.spans]
    found = index.of_pieces(built.spans, rows, INTERVAL)
    await store.put_new(keys.index_of(f"{folder}/{name}"), [index.encode(found)])
    return manifest.entry_of(
        name, built.base, built.end, built.content_id, built.spans, has_index=True
    )
