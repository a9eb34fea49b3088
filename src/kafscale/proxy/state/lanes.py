"""What a physical partition holds for each of its virtual ones: a pure function of its batches.

Here: which batches count, at which virtual offset, and where to find them again. Every proxy that
reads the same batches comes to the same result, so the upstream's log alone decides:

    a tagged batch counts if it has the next offset of its lane; a second copy, or the batch of a
    proxy that was too late, does not count and is never shown
    a batch of a plain producer counts for lane 0, in the order of the log
    a batch whose tag promises a producer's number and does not say it does not count
    control batches and transactional batches of plain producers count for no lane

Next door: tags (tags.py), what is kept of a state (checkpoints.py), who appends
(upstream/appending.py).
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from kafscale.log.formats.producers import ProducerTable
from kafscale.model.errors import BadBatch, CorruptBatch
from kafscale.proxy.state.tags import (
    MOST_NUMBERS,
    OFFSET_RANGE,
    Tag,
    TaggedProducer,
    read_definition,
    read_tag,
)
from kafscale.records.batch import BatchHeader
from kafscale.records.validation import MAGIC

CHUNK_BYTES: Final = 256 << 10  # of the physical log, between two marks of a lane
MOST_MARKS: Final = 16_384  # of all lanes; where there would be more, every second one goes
MOST_PRODUCERS: Final = 16_384  # numbers that a physical partition remembers
MOST_UNPACKED: Final = 64 << 20  # of a batch that defines a producer's number


class PlaceMark(NamedTuple):
    """A place from which a lane can be read."""

    offset: int  # virtual
    place: int  # physical


class Applied(NamedTuple):
    """A batch that counts."""

    lane: int
    offset: int  # virtual, of its first record
    tag: Tag | None


class VirtualLane:
    """One virtual partition's share of a physical one."""

    __slots__ = (
        "_ends",
        "_offsets",
        "_places",
        "_times",
        "is_sure",
        "next",
        "planned",
        "producers",
        "start",
    )

    def __init__(self, following: int = 0) -> None:
        self.start = following
        self.next = following  # behind the last batch that counts
        self.planned = following  # behind the last batch that is on its way
        self.is_sure = True  # False: batches before the first known one are gone
        self.producers: ProducerTable | None = None
        self._offsets = array("q")
        self._places = array("q")
        self._times = array("q")  # the latest one of each mark's batches
        self._ends = array("q")  # where the last of each mark's batches lies

    def __len__(self) -> int:
        """Count the marks."""
        return len(self._offsets)

    @property
    def marks(self) -> list[tuple[int, int, int, int]]:
        """Offset, place, latest time and end of each mark."""
        return list(zip(self._offsets, self._places, self._times, self._ends, strict=True))

    def add(self, offset: int, place: int, time_ms: int, chunk: int) -> bool:
        """Note a batch; True if it became a mark, being the lane's first of its chunk."""
        if self._places and self._places[-1] >= chunk:
            self._times[-1] = max(self._times[-1], time_ms)
            self._ends[-1] = place
            return False
        self.put(offset, place, time_ms, place)
        return True

    def put(self, offset: int, place: int, time_ms: int, end: int) -> None:
        """Add a mark behind the others."""
        self._ends.append(end)
        self._offsets.append(offset)
        self._places.append(place)
        self._times.append(time_ms)

    def mark_of(self, offset: int) -> PlaceMark | None:
        """Where to begin to read for an offset."""
        at = bisect_right(self._offsets, offset) - 1
        return PlaceMark(self._offsets[at], self._places[at]) if at >= 0 else None

    def mark_before(self, place: int) -> PlaceMark | None:
        """The last mark at or before a place."""
        at = bisect_right(self._places, place) - 1
        return PlaceMark(self._offsets[at], self._places[at]) if at >= 0 else None

    def marks_with(self, time_ms: int) -> list[PlaceMark]:
        """The marks whose batches may have a record that is not older."""
        return [
            PlaceMark(offset, place)
            for offset, place, latest in zip(self._offsets, self._places, self._times, strict=True)
            if latest >= time_ms
        ]

    def latest_mark(self) -> PlaceMark | None:
        """The mark whose batches have the latest time."""
        if not self._times:
            return None
        at = self._times.index(max(self._times))
        return PlaceMark(self._offsets[at], self._places[at])

    def straddles(self, place: int) -> bool:
        """Whether a mark before a place has batches at or behind it."""
        at = bisect_left(self._places, place) - 1
        return at >= 0 and self._ends[at] >= place

    def retain(self, place: int, first: PlaceMark | None) -> None:
        """Forget what lies before a place; `first`: the first batch behind it, if one straddles."""
        cut = bisect_left(self._places, place)
        latest = max(self._times[:cut], default=-1)
        end = self._ends[cut - 1] if cut else -1
        del self._offsets[:cut], self._places[:cut], self._times[:cut], self._ends[:cut]
        if first is not None:
            self._offsets.insert(0, first.offset)
            self._places.insert(0, first.place)
            self._times.insert(0, latest)
            self._ends.insert(0, end)
        self.start = max(self.start, self._offsets[0] if self._offsets else self.next)

    def thin(self) -> None:
        """Keep every second mark."""
        for at in range(0, len(self) - 1, 2):
            self._times[at] = max(self._times[at : at + 2])
            self._ends[at] = self._ends[at + 1]
        self._offsets, self._places = self._offsets[::2], self._places[::2]
        self._times, self._ends = self._times[::2], self._ends[::2]


class PhysicalLog:
    """All lanes of one physical partition, as of the batches below `next_place`."""

    def __init__(self, start_place: int = 0) -> None:
        self.start_place = start_place
        self.next_place = start_place
        self.lanes: dict[int, VirtualLane] = {}
        self.numbers: dict[int, TaggedProducer] = {}
        self.void_batches = 0
        self.plain_batches = 0
        self._by_producer: dict[TaggedProducer, int] = {}
        self._chunk = start_place
        self._chunk_bytes = 0
        self._mark_count = 0
        self._lost = start_place  # records before the start, of whichever lane

    def lane(self, number: int) -> VirtualLane:
        """A lane, which may be empty so far."""
        found = self.lanes.get(number)
        if found is None:
            found = self.lanes[number] = VirtualLane()
            found.is_sure = not self._lost
        return found

    # -- batches ------------------------------------------------------------------------------

    def apply(
        self, header: BatchHeader, batch: memoryview, now_ms: int, *, is_own: bool = False
    ) -> Applied | None:
        """Take the next batch of the log; None if it counts for no lane.

        `is_own`: the caller has told the lane's producers about it already.
        """
        self.next_place = header.next_offset
        if self._chunk_bytes >= CHUNK_BYTES:
            self._chunk, self._chunk_bytes = header.base_offset, 0
        self._chunk_bytes += header.size
        if header.magic != MAGIC:
            raise CorruptBatch(f"message format {header.magic} cannot be mapped")
        if header.is_control:
            return None
        tag = read_tag(header)
        if tag is None and header.is_transactional:
            return None
        lane = self.lane(0 if tag is None else tag.lane)
        offset = self.offset_of(lane, tag)
        if offset is None or not (tag is None or self._define(tag, batch)):
            self.void_batches += 1
            return None
        if tag is None:
            self.plain_batches += 1
        else:
            self._learn(lane, tag, header, now_ms, is_own)
        lane.is_sure = True
        lane.next = offset + header.last_offset_delta + 1
        lane.planned = max(lane.planned, lane.next)
        if lane.add(offset, header.base_offset, header.max_timestamp_ms, self._chunk):
            self._mark_count += 1
            self._bound_marks()
        return Applied(0 if tag is None else tag.lane, offset, tag)

    def offset_of(self, lane: VirtualLane, tag: Tag | None) -> int | None:
        """The virtual offset of the next batch of a lane; None: the batch does not count."""
        if lane.is_sure:
            return lane.next if tag is None or tag.offset == lane.next else None
        if tag is None:  # as many records of this lane may have been lost
            lane.start = lane.next + self._lost
            return lane.start
        if tag.offset < lane.next:
            return None
        lane.start = max(lane.start, tag.offset)
        return tag.offset

    def _define(self, tag: Tag, batch: memoryview) -> bool:
        """Take the meaning of a number; False: the batch should say it and does not."""
        if tag.has_producer and tag.defines:
            try:
                self.define(tag.number, read_definition(batch, MOST_UNPACKED))
            except BadBatch:
                return False
        return True

    def _learn(
        self, lane: VirtualLane, tag: Tag, header: BatchHeader, now_ms: int, own: bool
    ) -> None:
        if not tag.has_producer:
            return
        producer = self.numbers.get(tag.number)
        if own or producer is None:  # None: its definition is gone, by age
            return
        if lane.producers is None:
            lane.producers = ProducerTable()
        said = header._replace(producer_id=producer.producer_id, producer_epoch=producer.epoch)
        lane.producers.remember(said, tag.offset, now_ms, tag.offset + 1)

    def _bound_marks(self) -> None:
        if self._mark_count > MOST_MARKS:
            for lane in self.lanes.values():
                lane.thin()
            self._mark_count = sum(map(len, self.lanes.values()))

    # -- producers' numbers -------------------------------------------------------------------

    def define(self, number: int, producer: TaggedProducer) -> None:
        """Give a number its meaning; the one that has been used least lately may lose its own."""
        before = self.numbers.pop(number, None)
        if before is not None and self._by_producer.get(before) == number:
            del self._by_producer[before]
        self.numbers[number] = producer
        self._by_producer[producer] = number
        while len(self.numbers) > MOST_PRODUCERS:
            oldest = next(iter(self.numbers))
            gone = self.numbers.pop(oldest)
            if self._by_producer.get(gone) == oldest:
                del self._by_producer[gone]

    def number_of(self, producer: TaggedProducer) -> int | None:
        """The number of a producer, if it has one."""
        return self._by_producer.get(producer)

    def new_number(self, chance: int) -> int:
        """A number that stands for no producer; by chance, so that two proxies differ."""
        number = chance % MOST_NUMBERS
        while number in self.numbers:
            number = (number + 1) % MOST_NUMBERS
        return number

    # -- what is gone -------------------------------------------------------------------------

    def go_on(self, start_place: int, next_place: int) -> None:
        """Go on behind what a checkpoint has read."""
        self.start_place = start_place
        self.next_place = self._chunk = next_place
        self._chunk_bytes = 0
        self._lost = 0
        self._mark_count = sum(map(len, self.lanes.values()))

    def begin_at(self, place: int) -> None:
        """Go on at a place behind the last known one: what lies between is gone.

        No offset is given twice: where nothing tells how far a lane had come, as many offsets are
        skipped as records are gone.
        """
        self._lost = place - self.next_place
        self.start_place = self.next_place = self._chunk = place
        self._chunk_bytes = 0
        for lane in self.lanes.values():
            lane.retain(place, None)
            lane.is_sure = False

    def settle(self, lane_count: int) -> None:
        """All batches are read: lanes that had none among them go on behind what is gone."""
        if not self._lost:
            return
        for number in range(lane_count):
            lane = self.lane(number)
            if not lane.is_sure:
                lane.next += self._lost
                lane.start = lane.planned = lane.next
                lane.is_sure = True
        self._lost = 0

    def straddling(self, place: int) -> set[int]:
        """The lanes whose first batch behind a place is at no mark: it must be looked for."""
        return {number for number, lane in self.lanes.items() if lane.straddles(place)}

    def retain(self, place: int, seen: dict[int, PlaceMark]) -> None:
        """Begin at `place`, where the physical log begins now.

        `seen`: the first batch behind it of each lane that straddles it.
        """
        self.start_place = max(self.start_place, place)
        for number, lane in self.lanes.items():
            lane.retain(place, seen.get(number))
        self._mark_count = sum(map(len, self.lanes.values()))

    def forget_plans(self) -> None:
        """Return to what is in the log: batches on their way count for nothing."""
        for lane in self.lanes.values():
            lane.planned = lane.next
            if lane.producers is not None:
                kept = lane.producers.snapshot(lane.next)
                lane.producers = ProducerTable()
                lane.producers.restore(kept)

    def has_room(self, lane: VirtualLane, count: int) -> bool:
        """Whether a lane can take so many more records."""
        return lane.planned + count <= OFFSET_RANGE
