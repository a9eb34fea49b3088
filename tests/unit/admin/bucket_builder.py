"""A topic in memory, laid down object by object, for the tests of `kafscale segments`."""

from kafscale.log.formats import index, keys, manifest, segment
from kafscale.log.formats.manifest import Manifest, SegmentEntry
from kafscale.log.formats.segment import NOTHING_BEFORE, LaneBatches
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.memory import MemoryObjectStore
from kafscale.records import batch
from kafscale.records.record import Record, build_batch

NOW_MS = 1700000000000
TOPIC = TopicDescriptor(
    name="orders",
    topic_id="00112233445566778899aabbccddeeff",
    incarnation=1,
    folder="default/orders",
    partitions=1,
    logs=1,
    created_at="2023-11-14T22:13:20Z",
)
LOG = "default/orders/0"


def batch_of(first: int, count: int) -> bytes:
    records = [
        Record(offset, NOW_MS + offset, b"k", b"value %d" % offset)
        for offset in range(first, first + count)
    ]
    return build_batch(records, base_offset=first)


def built(base: int, *counts: int, token: int = 7) -> segment.Built:
    """A segment with one batch per count, from `base` on."""
    batches, at = [], base
    for count in counts:
        batches.append(batch_of(at, count))
        at += count
    lane = LaneBatches(0, base, at - 1, at - base, NOW_MS + base, NOW_MS + at - 1, batches)
    return segment.build(
        base, at, [lane], created_ms=NOW_MS, token=token, predecessor=NOTHING_BEFORE
    )


class TopicInMemory:
    """Puts objects where a broker would."""

    def __init__(self) -> None:
        self.store = MemoryObjectStore(now_ms=lambda: NOW_MS)

    async def describe(self) -> None:
        await self.store.put_new(keys.descriptor("default/orders", 1), [TOPIC.encode()])

    async def flush(self, base: int, *counts: int) -> str:
        key = keys.segment(LOG, base)
        await self.store.put_new(key, built(base, *counts).body)
        return key

    async def rewrite(self, base: int, *counts: int, generation: int = 1) -> SegmentEntry:
        """Rolled-up history with its index, and what a manifest says about it."""
        made = built(base, *counts, token=9)
        name = keys.rewritten_name(base, generation, 9)
        await self.store.put_new(f"{LOG}/{name}", made.body)
        data = await self.store.read(f"{LOG}/{name}")
        lines = [(s, list(batch.walk(data, s.start, s.start + s.length))) for s in made.spans]
        body = index.encode(index.collect(lines, interval=1))
        await self.store.put_new(keys.index_of(f"{LOG}/{name}"), [body])
        return manifest.entry_of(
            name, made.base, made.end, made.content_id, made.spans, has_index=True
        )

    async def commit(self, generation: int, end: int, *entries: SegmentEntry) -> None:
        told = Manifest(
            generation=generation, commit_id="c", created_ms=NOW_MS, author="t", end=end,
            segments=list(entries),
        )  # fmt: skip
        await self.store.put_new(keys.manifest(LOG, generation), [manifest.encode(told)])

    async def spoil(self, key: str, at: int, byte: int) -> None:
        """Change one byte of an object, as a failing disk would."""
        body = bytearray(await self.store.read(key))
        assert body[at] != byte
        body[at] = byte
        await self.store.delete([key])
        await self.store.put_new(key, [body])
