"""A bucket of files with one log in it, written the way a broker writes it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from kafscale.log.formats import keys
from kafscale.log.formats.manifest import Manifest
from kafscale.log.protocol import commits, survey
from kafscale.log.protocol.survey import LogSnapshot
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.files import FileObjectStore
from kafscale.objects.store import ObjectStore
from kafscale.records import batch, record
from kafscale.records.compression import Codec
from kafscale.records.record import Record
from kafscale.spark.bucket import Bucket
from kafscale.spark.jobs.logs.selection import ChosenLog, FoundLog
from kafscale.system import SystemClock, SystemDice

FOLDER = "default/orders/0"
NOW_MS = 1_700_000_000_000

Pair = tuple[bytes | None, bytes | None]
T = TypeVar("T")


def topic_of(**configs: str) -> TopicDescriptor:
    return TopicDescriptor(
        name="orders",
        topic_id="00112233445566778899aabbccddeeff",
        incarnation=1,
        folder="default/orders",
        partitions=1,
        logs=1,
        configs={name.replace("_", "."): value for name, value in configs.items()},
        created_at="2023-11-14T22:13:20Z",
    )


class Place:
    """Writes with an owner's log, reads with nothing but the bucket."""

    def __init__(self, folder: Path | str, **configs: str) -> None:
        """Work in a folder, or under a store's URL."""
        if isinstance(folder, Path):
            FileObjectStore(folder)
            self.root = folder
        self.bucket = Bucket(f"file://{folder}" if isinstance(folder, Path) else folder)
        self.topic = topic_of(**configs)
        self.bucket.put_new(keys.descriptor("default/orders", 1), [self.topic.encode()])
        self.written: dict[int, list[tuple[int, bytes | None, bytes | None]]] = {}
        self._time = NOW_MS

    def write(
        self,
        flushes: Sequence[Sequence[Pair]],
        *,
        lane: int = 0,
        codec: Codec = Codec.NONE,
        roll_up: bool = True,
        merge: bool = False,
        producer: int = -1,
    ) -> None:
        """One flush of one batch for each list of (key, value)."""

        async def work(store: ObjectStore) -> None:
            log = Log(
                store, FOLDER, epoch=1, author="owner", settings=LogSettings(flush_interval_s=0),
                memory=TailMemory(1 << 30), clock=SystemClock(), dice=SystemDice(),
            )  # fmt: skip
            await log.open()
            for number, pairs in enumerate(flushes):
                data = self._batch(pairs, codec, producer, number)
                answer = log.append(lane, batch.read_header(data), data, acknowledged=False)
                assert answer.committed is None or await answer.committed is None
                rows = self.written.setdefault(lane, [])
                rows += [(answer.first + at, key, value) for at, (key, value) in enumerate(pairs)]
            if roll_up:
                await rollup.roll_up(log, merge=merge)
            await log.aclose()

        self.bucket.run(work)

    def _batch(self, pairs: Sequence[Pair], codec: Codec, producer: int, number: int) -> memoryview:
        records = []
        for at, (key, value) in enumerate(pairs):
            self._time += 1
            records.append(Record(at, self._time, key, value, (("h", b"x"),)))
        data = record.build_batch(
            records, base_offset=0, codec=codec, producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=number * len(pairs) if producer >= 0 else -1,
        )  # fmt: skip
        return memoryview(bytearray(data))

    def snapshot(self) -> LogSnapshot:
        return self.bucket.run(lambda store: survey.take_snapshot(store, FOLDER))

    def found(self) -> FoundLog:
        """The log as jobs find it."""
        return FoundLog(ChosenLog(FOLDER, self.topic, {}), self.snapshot(), idle=False)

    def manifest(self) -> Manifest:
        return self.bucket.run(lambda store: commits.read_newest(store, FOLDER))

    def names(self) -> list[str]:
        rows = self.bucket.run(lambda store: store.find(FOLDER))
        return [row.key.rpartition("/")[2] for row in rows]

    def records(self, lane: int = 0) -> list[Record]:
        """Everything that counts, in order."""
        found: list[Record] = []
        for piece in self.snapshot().pieces:
            data = self.bucket.read(piece.key)
            for span in piece.spans:
                if span.lane == lane:
                    for at, header in batch.walk(data, span.start, span.start + span.length):
                        whole = data[at : at + header.size]
                        assert batch.check_crc(whole)
                        if header.record_count:
                            found += record.open_batch(whole, 1 << 30)
        return found

    def pairs(self, lane: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(one.offset, one.key, one.value) for one in self.records(lane)]

    def run(self, work: Callable[[ObjectStore], T]) -> T:
        return self.bucket.run(work)  # type: ignore[arg-type]


def local(spark: object, units: Sequence[object], work: Callable, *, progress: object = None):  # type: ignore[no-untyped-def,type-arg]
    """What Spark does with units, without Spark."""
    return [work(unit) for unit in units]
