"""Topics laid down in a folder, record by record, without a broker."""

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafscale.log.formats import keys, manifest, segment
from kafscale.log.formats.manifest import LaneMark, Manifest
from kafscale.log.formats.segment import NOTHING_BEFORE, LaneBatches
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.files import FileObjectStore
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch
from kafscale.spark.bucket import Bucket

T0_MS = 1_763_164_800_000  # 2025-11-15T00:00:00Z
HOUR_MS = 3_600_000


class Topic:
    """A topic whose partitions grow by flushes."""

    def __init__(
        self,
        folder: Path,
        name: str = "orders",
        partitions: int = 2,
        incarnation: int = 1,
        bucket: Bucket | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        if bucket is None:
            FileObjectStore(folder)
        self.bucket = bucket or Bucket(f"file://{folder}")
        self.url = self.bucket.url
        namespace = self.bucket.namespace
        self.ends = [0] * partitions
        self.records: dict[tuple[int, int], Record] = {}
        place = f"{namespace}/{name}" + (f"@{incarnation}" if incarnation > 1 else "")
        self.descriptor = TopicDescriptor(
            name=name,
            topic_id=f"{zlib.crc32(name.encode()):024x}{incarnation:08x}",
            incarnation=incarnation,
            folder=place,
            partitions=partitions,
            logs=partitions,
            configs=dict(configs or {}),
            created_at="2025-11-15T00:00:00Z",
        )
        key = keys.descriptor(f"{namespace}/{name}", incarnation)
        self.bucket.put_new(key, [self.descriptor.encode()])

    def flush(
        self,
        partition: int,
        values: Sequence[bytes | None],
        *,
        step_ms: int = 1000,
        codec: Codec = Codec.NONE,
        keys_given: Sequence[bytes | None] | None = None,
        from_ms: int = T0_MS,
    ) -> None:
        """One object with one batch: keys k0, k1, ... or those given, times by offset."""
        base = self.ends[partition]
        records = [
            Record(
                base + at,
                from_ms + (base + at) * step_ms,
                keys_given[at]
                if keys_given is not None
                else (b"k%d" % (base + at) if (base + at) % 5 else None),
                value,
                (("source", b"%d" % at),) if at % 3 == 0 else (),
            )
            for at, value in enumerate(values)
        ]
        batch = build_batch(records, base_offset=base, codec=codec)
        end = base + len(values)
        lane = LaneBatches(
            0, base, end - 1, len(values), records[0].timestamp_ms, records[-1].timestamp_ms,
            [batch],
        )  # fmt: skip
        built = segment.build(
            base, end, [lane], created_ms=T0_MS, token=base + 1, predecessor=NOTHING_BEFORE
        )
        self.bucket.put_new(keys.segment(self.log(partition), base), built.body)
        self.ends[partition] = end
        self.records |= {(partition, record.offset): record for record in records}

    def log(self, partition: int) -> str:
        return keys.log_folder(self.descriptor.folder, partition)

    def forget(self, partition: int, before: int) -> None:
        """Retention: a manifest that begins later and has nothing of what was there."""
        told = Manifest(
            generation=1, commit_id="c", created_ms=T0_MS, author="t", end=before,
            lanes={0: LaneMark(before, before)},
        )  # fmt: skip
        self.bucket.put_new(keys.manifest(self.log(partition), 1), [manifest.encode(told)])
        for at in range(before):
            self.records.pop((partition, at), None)
