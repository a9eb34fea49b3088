"""Two topics on the shared logs of a namespace, laid down object by object.

`clicks` has four partitions, `views` two, on two logs: slots 0 to 3 and 4 to 5.
"""

from kafscale.log.formats import keys, manifest, segment
from kafscale.log.formats.manifest import LaneMark, Manifest, SegmentEntry
from kafscale.log.formats.segment import NOTHING_BEFORE, Built, LaneBatches
from kafscale.model.topics import LaneRange, TopicDescriptor
from kafscale.objects.memory import MemoryObjectStore
from tests.unit.admin.bucket_builder import NOW_MS, TOPIC, batch_of

SHARED = "default/@shared"
LOGS = [keys.log_folder(SHARED, 0), keys.log_folder(SHARED, 1)]


def topic(name: str, first: int, count: int) -> TopicDescriptor:
    return TopicDescriptor(
        name=name,
        topic_id=TOPIC.topic_id,
        incarnation=1,
        folder=f"default/{name}",
        partitions=count,
        logs=0,
        layout="shared",
        shared=[LaneRange(SHARED, first, count, 2)],
        configs={"storage.placement": "shared"},
        created_at=TOPIC.created_at,
    )


CLICKS = topic("clicks", 0, 4)  # lanes 0 and 1 of both logs
VIEWS = topic("views", 4, 2)  # lane 2 of both


def built(base: int, lanes: dict[int, tuple[int, int]]) -> Built:
    """A segment with one batch per lane: its first offset and its number of records."""
    rows = [
        LaneBatches(
            lane, first, first + count - 1, count, NOW_MS + first, NOW_MS + first + count - 1,
            [batch_of(first, count)],
        )
        for lane, (first, count) in sorted(lanes.items())
    ]  # fmt: skip
    end = base + sum(count for _, count in lanes.values())
    return segment.build(base, end, rows, created_ms=NOW_MS, token=7, predecessor=NOTHING_BEFORE)


def size_of(first: int, count: int) -> int:
    """Bytes of a lane's batch in such a segment."""
    return len(batch_of(first, count))


class SharedInMemory:
    """Puts objects where a broker would."""

    def __init__(self) -> None:
        self.store = MemoryObjectStore(now_ms=lambda: NOW_MS)

    async def describe(self, *topics: TopicDescriptor) -> None:
        for one in topics:
            key = keys.descriptor(keys.descriptor_folder("default", one.name), 1)
            await self.store.put_new(key, [one.encode()])

    async def flush(self, folder: str, base: int, lanes: dict[int, tuple[int, int]]) -> str:
        key = keys.segment(folder, base)
        await self.store.put_new(key, built(base, lanes).body)
        return key

    async def roll_up(
        self, folder: str, lanes: dict[int, tuple[int, int]], starts: dict[int, int]
    ) -> SegmentEntry:
        """All of the past in one object, from position 0 on, and its manifest."""
        made = built(0, lanes)
        name = keys.rewritten_name(0, 1, 7)
        await self.store.put_new(f"{folder}/{name}", made.body)
        entry = manifest.entry_of(name, 0, made.end, made.content_id, made.spans, has_index=False)
        told = Manifest(
            generation=1, commit_id="c", created_ms=NOW_MS, author="t", end=made.end,
            end_id=(*made.content_id,), segments=[entry],
            lanes={
                lane: LaneMark(starts.get(lane, 0), first + count)
                for lane, (first, count) in lanes.items()
            },
        )  # fmt: skip
        await self.store.put_new(keys.manifest(folder, 1), [manifest.encode(told)])
        return entry


async def two_topics() -> SharedInMemory:
    """Log 0: a rolled-up past whose lane 1 was deleted up to 3, and a flush; log 1: a flush."""
    made = SharedInMemory()
    await made.describe(CLICKS, VIEWS)
    await made.store.put_new(keys.allotment(SHARED, 1), [b'{"logs":2,"next":6}'])
    await made.roll_up(LOGS[0], {0: (0, 5), 1: (0, 3), 2: (0, 4)}, starts={1: 3})
    await made.flush(LOGS[0], 12, {0: (5, 2), 2: (4, 1)})
    await made.flush(LOGS[1], 0, {1: (0, 6)})
    return made
