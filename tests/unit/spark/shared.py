"""A namespace whose topics share logs, written the way brokers write them, without a broker."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.catalog.lane_allotment import SharedLogs
from kafscale.log.formats import keys, places
from kafscale.log.formats.manifest import Manifest
from kafscale.log.protocol import commits
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.model.errors import KafscaleError, NotTheOwner
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.files import FileObjectStore
from kafscale.objects.store import ObjectStore
from kafscale.records import batch, record
from kafscale.records.record import Record, build_batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.views import read_views
from kafscale.system import SystemClock, SystemDice

NOW_MS = 1_700_000_000_000
SETTINGS = LogSettings(flush_interval_s=0.002, producer_expiry_ms=1 << 62)
Pair = tuple[bytes | None, bytes | None]
Flush = Mapping[tuple[str, int], Sequence[Pair]]  # topic and partition -> what it gets


class SharedNamespace:
    """Topics that share logs, and what was written to each partition."""

    def __init__(self, folder: Path, logs: int = 2) -> None:
        FileObjectStore(folder)
        self.bucket = Bucket(f"file://{folder}")
        self.logs = logs
        self.written: dict[tuple[str, int], list[tuple[int, bytes | None, bytes | None]]] = {}
        self._time = NOW_MS

    def create(self, name: str, partitions: int, **configs: str) -> TopicDescriptor:
        async def make(store: ObjectStore) -> TopicDescriptor:
            held = await SharedLogs(store, "default").allot(partitions, self.logs)
            version, newest = await Descriptors(store, "default").newest(name)
            fresh = self.bucket.dice.token(16).hex()
            made = TopicDescriptor(
                name=name,
                topic_id=fresh,
                incarnation=1 if newest is None else newest.incarnation + 1,
                folder=keys.topic_folder("default", name, "" if newest is None else fresh),
                partitions=partitions,
                logs=0,
                layout="shared",
                shared=[held],
                configs={key.replace("_", "."): value for key, value in configs.items()},
                created_at="2023-11-14T22:13:20Z",
            )
            assert await Descriptors(store, "default").put(made, version + 1)
            return made

        return self.bucket.run(make)

    def delete(self, name: str) -> None:
        """Leave a tombstone, as a broker does."""

        async def bury(store: ObjectStore) -> None:
            version, newest = await Descriptors(store, "default").newest(name)
            assert newest is not None
            gone = msgspec.structs.replace(newest, deleted=True)
            assert await Descriptors(store, "default").put(gone, version + 1)

        self.bucket.run(bury)

    def write(self, flushes: Sequence[Flush], *, roll_up: bool = True, merge: bool = False) -> None:
        """One flush per log for each mapping."""
        self.bucket.run(lambda store: self._write(store, flushes, roll_up, merge))

    async def _write(
        self, store: ObjectStore, flushes: Sequence[Flush], roll_up: bool, merge: bool
    ) -> None:
        topics = {one.name: one for one in await Descriptors(store, "default").all()}
        logs: dict[str, Log] = {}
        # All logs are open before the first append: what one mapping holds for a log is appended
        # without an await in between, and so becomes one flush on a machine of any speed.
        for name, partition in {place for flush in flushes for place in flush}:
            folder, _ = places.place(topics[name], partition)
            if folder not in logs:
                logs[folder] = await opened(store, folder)
        for flush in flushes:
            waiting: list[asyncio.Future[object]] = []
            for (name, partition), pairs in flush.items():
                folder, lane = places.place(topics[name], partition)
                data = self._batch(pairs)
                answer = logs[folder].append(
                    lane, batch.read_header(data), data, acknowledged=False
                )
                if answer.committed is not None:
                    waiting.append(answer.committed)  # type: ignore[arg-type]
                rows = self.written.setdefault((name, partition), [])
                rows += [(answer.first + at, *pair) for at, pair in enumerate(pairs)]
            assert await asyncio.gather(*waiting) == [None] * len(waiting)
        for log in logs.values():
            if roll_up:
                await rollup.roll_up(log, merge=merge)
            await log.aclose()

    def _batch(self, pairs: Sequence[Pair]) -> memoryview:
        records = []
        for at, (key, value) in enumerate(pairs):
            self._time += 1
            records.append(Record(at, self._time, key, value, (("h", b"x"),)))
        return memoryview(bytearray(record.build_batch(records, base_offset=0)))

    # -- reading, by nothing but the bucket ------------------------------------------------

    def raw(self, name: str) -> dict[int, bytes]:
        """The batches of every partition, byte for byte, from its log start on."""
        found = {}
        for view in read_views(self.bucket, self.bucket.topic(name)):
            data = b"".join(
                bytes(self.bucket.read(one.key, one.start, one.length))
                for one in view.stored_ranges
            )
            kept = [
                data[at : at + header.size]
                for at, header in batch.walk(data)
                if header.last_offset >= view.start
            ]
            found[view.partition] = b"".join(kept)
        return found

    def pairs(self, name: str, partition: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """The records of one partition, checksums looked at."""
        [view] = read_views(self.bucket, self.bucket.topic(name), [partition])
        data = self.raw(name)[partition]
        found = []
        for at, header in batch.walk(data):
            whole = memoryview(data)[at : at + header.size]
            assert batch.check_crc(whole)
            if header.record_count:
                found += record.open_batch(whole, 1 << 30)
        return [(one.offset, one.key, one.value) for one in found if one.offset >= view.start]

    def folder(self, log: int) -> str:
        return keys.log_folder(keys.shared_folder("default"), log)

    def manifest(self, log: int) -> Manifest:
        return self.bucket.run(lambda store: commits.read_newest(store, self.folder(log)))

    def stored_bytes(self) -> int:
        """Of all segments in the shared logs, replaced ones too."""
        rows = self.bucket.run(lambda store: store.find(keys.shared_folder("default")))
        return sum(row.size for row in rows if row.key.endswith(".kfs"))


async def opened(store: ObjectStore, folder: str) -> Log:
    log = Log(
        store, folder, epoch=1, author="owner", settings=SETTINGS,
        memory=TailMemory(1 << 30), clock=SystemClock(), dice=SystemDice(),
    )  # fmt: skip
    await log.open()
    return log


def one_record(value: bytes) -> memoryview:
    made = build_batch([Record(0, 1_700_000_000_000, None, value)], base_offset=0)
    return memoryview(bytearray(made))


class Owner:
    """A broker that writes to a lane of a shared log all the time, and is told what counts."""

    def __init__(self, bucket: Bucket, folder: str, lane: int) -> None:
        self.acknowledged: list[bytes] = []
        self.refused = 0
        self._bucket, self._folder, self._lane = bucket, folder, lane
        self._stop = False
        self._task: asyncio.Task[None] = bucket.run(self._start)

    async def _start(self, store: ObjectStore) -> "asyncio.Task[None]":
        log = await opened(store, self._folder)
        return asyncio.create_task(self._write(log))

    async def _write(self, log: Log) -> None:
        number = 0
        while not self._stop:
            value = b"%d" % number
            data = one_record(value)
            try:
                answer = log.append(self._lane, batch.read_header(data), data, acknowledged=False)
                assert answer.committed is not None
                problem: KafscaleError | None = await answer.committed
            except NotTheOwner as refused:
                problem = refused
            if problem is None:
                self.acknowledged.append(value)
                number += 1
            else:
                self.refused += 1
                await asyncio.sleep(0.001)
        await log.aclose()

    def stop(self) -> None:
        async def wait(_: ObjectStore) -> None:
            self._stop = True
            await self._task

        self._bucket.run(wait)
