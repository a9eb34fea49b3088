"""Topics made without a broker, as fast as a disk takes them, and read as a broker reads them.

In this room: ready batches stamped with rising offsets, laid into flush objects that a manifest
names one by one.
"""

import asyncio
import random
import struct
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.run import NOW_MS
from kafscale.log.formats import keys, manifest, segment
from kafscale.log.formats.manifest import LaneMark, Manifest, SegmentEntry
from kafscale.log.formats.segment import LaneBatches
from kafscale.log.reader.reader import Reader
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.files import FileObjectStore
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels import scan
from kafscale.system import SystemClock, SystemDice
from kafscale.tasks import Tasks

RECORD_BYTES = 200
_VARIETY = 64  # different batches
_OFFSET = struct.Struct(">q")


def make_topic(
    root: Path,
    name: str,
    raw_bytes: int,
    *,
    object_bytes: int,
    codec: str = "none",
    batch_records: int = 81,
) -> str:
    """One partition of about `raw_bytes` before packing; gives the store's URL."""
    FileObjectStore(root)
    bucket = Bucket(f"file://{root}")
    topic = TopicDescriptor(
        name=name, topic_id="0" * 32, incarnation=1, folder=f"default/{name}", partitions=1,
        logs=1, created_at="2023-11-14T22:13:20Z",
        configs={"cleanup.policy": "compact", "retention.ms": "-1"},
    )  # fmt: skip
    bucket.put_new(keys.descriptor(topic.folder, 1), [topic.encode()])
    folder = root / topic.folder / "0"
    folder.mkdir()
    models = _models(Codec[codec.upper()], batch_records)
    entries: list[SegmentEntry] = []
    at, left = 0, raw_bytes
    while left > 0:
        entry, taken = _write_object(folder, models, at, object_bytes, batch_records)
        entries.append(entry)
        at = entry.end
        left -= taken
    past = Manifest(
        generation=1, commit_id="made", created_ms=NOW_MS, author="benchmark", end=at,
        segments=entries, lanes={0: LaneMark(0, at)},
    )  # fmt: skip
    bucket.put_new(keys.manifest(f"{topic.folder}/0", 1), [manifest.encode(past)])
    return bucket.url


def _models(codec: Codec, count: int) -> list[tuple[bytes, int]]:
    """Batches with their raw sizes: JSON-like values, keys of which one in ten is new."""
    dice = random.Random(1)
    models = []
    for number in range(_VARIETY):
        records = []
        for at in range(count):
            key = b"key-%013d" % (number * count + at)
            text = b'{"order":%d,"customer":%d,"amount":%d.%02d,"note":"' % (
                dice.randrange(10**9), dice.randrange(10**6), dice.randrange(1000), at % 100,
            )  # fmt: skip
            fill = RECORD_BYTES - 17 - 10 - len(text)
            value = text + b"%x" % dice.getrandbits(2 * fill)
            records.append(Record(at, NOW_MS + at, key, value[: RECORD_BYTES - 27]))
        raw = len(build_batch(records, base_offset=0))
        models.append((build_batch(records, base_offset=0, codec=codec), raw))
    return models


def _write_object(
    folder: Path, models: list[tuple[bytes, int]], base: int, size: int, count: int
) -> tuple[SegmentEntry, int]:
    batches: list[bytes] = []
    at, taken, stored = base, 0, 0
    while not batches or stored < size - 16_500:
        model, raw = models[(at // count) % _VARIETY]
        batches.append(_OFFSET.pack(at) + model[8:])
        at += count
        taken += raw
        stored += len(model)
    lane = LaneBatches(0, base, at - 1, at - base, NOW_MS, NOW_MS + count - 1, batches)
    built = segment.build(
        base, at, [lane], created_ms=NOW_MS, token=base & 0xFFFFFFFF,
        predecessor=segment.NOTHING_BEFORE,
    )  # fmt: skip
    name = keys.segment_name(base)
    with (folder / name).open("wb") as file:
        file.writelines(built.body)
    # No broker has written an index beside it: a reader of flushes this small does without.
    entry = manifest.entry_of(name, base, at, built.content_id, built.spans, has_index=False)
    return entry, taken


class ReadCold(NamedTuple):
    """How reading everything went."""

    size: int
    seconds: float
    objects: int


async def read_cold(url: str) -> ReadCold:
    """Read partition 0 of the only topic from its beginning, nothing in memory."""
    bucket = Bucket(url)
    [topic] = await asyncio.to_thread(bucket.topics)
    store = FileObjectStore(Path(bucket.where.root))
    log = Log(
        store, f"{topic.folder}/0", epoch=0, author="benchmark", settings=LogSettings(),
        memory=TailMemory(1), clock=SystemClock(), dice=SystemDice(),
    )  # fmt: skip
    await log.open()
    tasks = Tasks()
    reader = Reader(
        store, cache_bytes=64 << 20, index_cache_bytes=1 << 20, read_ahead=3, tasks=tasks
    )
    lane = log.lane(0)
    at = size = 0
    began = time.perf_counter()
    while at < lane.high:
        found = await reader.read(log, lane, at, 1 << 20, at_least_one=True)
        size += sum(map(len, found))
        at = _next_offset(found[-1])
    seconds = time.perf_counter() - began
    objects = len(log.committed.manifest.segments)
    await tasks.aclose()
    await log.abandon()
    await store.aclose()
    return ReadCold(size, seconds, objects)


def _next_offset(piece: memoryview) -> int:
    last = scan.walk(piece, 0, len(piece)).positions[-1]
    return batch.read_header(piece, last).next_offset
