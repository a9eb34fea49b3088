"""Topics made and read back without a broker."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kafscale.model.topics import TopicDescriptor
from kafscale.objects.files import FileObjectStore
from kafscale.records import batch
from kafscale.records.record import Record, open_batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.sink import bulk, sealing
from kafscale.spark.sink.staging import StagedSection, stage
from kafscale.spark.views import read_views


def bucket_in(folder: Path) -> Bucket:
    FileObjectStore(folder)
    return Bucket(f"file://{folder}")


def staged(plan: bulk.LoadPlan, tasks: Sequence[list[pa.RecordBatch]]) -> list[StagedSection]:
    return [row for task, some in enumerate(tasks) for row in stage(plan.target, task, some)]


def sealed(plan: bulk.LoadPlan, sections: list[StagedSection]) -> list[sealing.Sealed]:
    return [sealing.seal(plan.target.bucket, work) for work in bulk.seals(plan, sections)]


def load(
    bucket: Bucket, name: str, partitions: int, tasks: Sequence[list[pa.RecordBatch]], **more: str
) -> TopicDescriptor:
    configs = {key.replace("_", "."): value for key, value in more.items()}
    plan = bulk.begin(bucket, name, partitions, configs=configs)
    made = bulk.commit(plan, sealed(plan, staged(plan, tasks))).topic
    bulk.tidy_up(plan)
    return made


def numbered(first: int, count: int) -> pa.RecordBatch:
    """Rows with keys, some without, whose value is their number and whose time follows it."""
    numbers = range(first, first + count)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%d" % (at % 50) if at % 5 else None for at in numbers]),
            "value": pa.array([f"value {at}" for at in numbers]),
            "headers": pa.array(
                [[{"key": "n", "value": b"%d" % at}] if at % 3 else None for at in numbers], headers
            ),
            "timestamp": pa.array([1_000_000 + at for at in numbers], pa.timestamp("ms", "UTC")),
        }
    )


def records_of(bucket: Bucket, topic: TopicDescriptor) -> list[list[Record]]:
    """Every record by partition, checksums looked at."""
    assert not any(log.problems for log in bucket.snapshots(topic))
    found = []
    for view in read_views(bucket, topic):
        mine: list[Record] = []
        at = min((one.first for one in view.stored_ranges), default=0)
        for one in view.stored_ranges:
            data = bucket.read(one.key, one.start, one.length)
            for place, header in batch.walk(data):
                whole = data[place : place + header.size]
                assert batch.check_crc(whole)
                assert header.base_offset == at, "batches leave no gap"
                at = header.next_offset
                if header.record_count:
                    mine += open_batch(whole, 1 << 26)
        found.append([record for record in mine if record.offset >= view.start])
    return found


def objects(bucket: Bucket, folder: str) -> list[str]:
    return [row.key for row in bucket.run(lambda store: store.find(folder))]


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key, as an unsigned number."""
    mix = 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * mix & 0xFFFFFFFF
        part ^= part >> 24
        hashed = hashed * mix & 0xFFFFFFFF ^ part * mix & 0xFFFFFFFF
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * mix & 0xFFFFFFFF
    hashed ^= hashed >> 13
    hashed = hashed * mix & 0xFFFFFFFF
    return hashed ^ hashed >> 15


def with_old_topic(folder: Path, partitions: int) -> Bucket:
    """A bucket with 2,000 records in the topic "old", in small objects."""
    found = bucket_in(folder)
    batches = [[numbered(at, 200)] for at in range(0, 2000, 200)]
    load(found, "old", partitions, batches, retention_ms="-1", segment_bytes="6000")
    return found
