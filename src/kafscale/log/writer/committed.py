"""A log's committed state, as this process knows it: the manifest, the tail, the lanes.

Here: loading what the bucket says, and adding what has just been committed. No store, no waiting.
Next door: the writers that have one (log.py, job_appender.py), reading the bucket
(protocol/opening.py).
"""

from collections import Counter
from collections.abc import Iterable

from kafscale.log.formats import segment
from kafscale.log.formats.manifest import LaneMark, Manifest, SegmentEntry
from kafscale.log.formats.segment import ContentId, Span
from kafscale.log.protocol import commits
from kafscale.log.protocol.opening import Opened, TailSegment
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.tail_memory import Chunk, TailMemory
from kafscale.log.writer.types import TailFlush
from kafscale.model.clock import Moment
from kafscale.records import batch
from kafscale.records.batch import BatchHeader

_NONE_WAITS = 1 << 62  # an offset above all: every batch of the producer counts as committed


class CommittedLog:
    """What is committed in one log, as of the last look at the bucket and our own commits."""

    def __init__(self, memory: TailMemory) -> None:
        """An empty log, whose recent batches `memory` will hold."""
        self._memory = memory
        self.lanes: dict[int, Lane] = {}  # always this dict: a Log shares it
        self.manifest: Manifest = commits.empty_manifest()
        self.seen = Moment(0.0, 0)  # then, or later, the manifest was the newest in the bucket
        self.tail: list[TailFlush] = []
        self.tail_bytes = 0
        self.dead_bytes = 0  # below lane starts, in segments that other lanes still need
        self.end = 0  # the position after the last committed record
        self.end_id = segment.NOTHING_BEFORE  # content id of the last committed flush

    def lane(self, number: int) -> Lane:
        """The lane of that number; an empty one if nothing was ever written to it."""
        lane = self.lanes.get(number)
        if lane is None:
            lane = self.lanes[number] = Lane(number)
        return lane

    def marks(self) -> dict[int, LaneMark]:
        """All lanes that have committed records, as a manifest describes them."""
        return {number: lane.mark() for number, lane in self.lanes.items() if lane.high}

    def boundaries(self) -> set[int]:
        """Positions at which a manifest may end and our chain still go on."""
        return {self.manifest.end, *(flush.entry.end for flush in self.tail)}

    # -- from the bucket -------------------------------------------------------------------

    def load(self, opened: Opened) -> None:
        """Forget everything and start from what was found in the bucket."""
        self.release()
        for lane in self.lanes.values():
            lane.reset()
        self.tail = []
        self.tail_bytes = 0
        self.manifest = opened.manifest
        self.seen = opened.proof
        self.end = opened.manifest.end
        self.end_id = ContentId._make(opened.manifest.end_id)
        for number, mark in opened.manifest.lanes.items():
            self.lane(number).restore(mark)
        self._list_past()
        for found in opened.tail:
            self.add_found(found)

    def release(self) -> None:
        """Give back the memory of the recent batches."""
        for lane in self.lanes.values():
            self._memory.release(lane.recent)

    def add_found(self, found: TailSegment) -> None:
        """Add a flush that was found in the bucket: offsets, producers, epochs, memory."""
        parts = []
        for span in found.content.spans:
            lane = self.lane(span.lane)
            lane.begin_at(span.first)
            firsts: list[int] = []
            batches: list[memoryview] = []
            for at, header in batch.walk(found.data, span.start, span.start + span.length):
                if header.has_producer:
                    self._note_found(lane, header, found, at)
                lane.note_epoch(header.leader_epoch, header.base_offset)
                firsts.append(header.base_offset)
                batches.append(found.data[at : at + header.size])
            lane.advance(span.last + 1)
            parts.append((span, Chunk(span.first, span.last, firsts, batches)))
        self.extend(found.entry, found.content.content_id, parts)

    def _note_found(self, lane: Lane, header: BatchHeader, found: TailSegment, at: int) -> None:
        data, created_ms = found.data[at : at + header.size], found.content.created_ms
        lane.note_appended(header, header.base_offset, data, created_ms, _NONE_WAITS)
        lane.note_transaction(header, header.base_offset, data, created_ms)

    # -- from our own commits --------------------------------------------------------------

    def extend(
        self, entry: SegmentEntry, content_id: ContentId, parts: Iterable[tuple[Span, Chunk]]
    ) -> None:
        """Add a committed flush: from here on readers see it."""
        chunks = []
        for span, chunk in parts:
            lane = self.lane(span.lane)
            lane.commit(span, entry)
            self._memory.keep(lane.recent, chunk)
            chunks.append((span.lane, chunk))
        self.tail.append(TailFlush(entry, chunks))
        self.tail_bytes += entry.size
        self.end = entry.end
        self.end_id = content_id

    def note_newest(self, seen: Moment) -> None:
        """Remember that a LIST issued at this moment found no newer manifest than ours."""
        self.seen = max(self.seen, seen)

    def take_manifest(self, newest: Manifest, seen: Moment) -> None:
        """Make a newer manifest our past; it ends at a boundary of our chain."""
        for number, end in _rewritten_to(self.manifest, newest).items():
            self._memory.release_before(self.lane(number).recent, end)
        self.manifest = newest
        self.seen = seen
        self.tail = [flush for flush in self.tail if flush.entry.base >= newest.end]
        self.tail_bytes = sum(flush.entry.size for flush in self.tail)
        for number, mark in newest.lanes.items():
            self.lane(number).raise_start(mark.start)
        for lane in self.lanes.values():
            lane.forget_spans()
        self._list_past()
        for flush in self.tail:
            for span in flush.entry.spans():
                self.lane(span.lane).add_span(span, flush.entry)

    def _list_past(self) -> None:
        for entry in self.manifest.segments:
            for span in entry.spans():
                self.lane(span.lane).add_span(span, entry)
        self.dead_bytes = sum(lane.forget_spans_before(lane.start) for lane in self.lanes.values())

    def forget_lanes(self, numbers: Iterable[int]) -> None:
        """Drop lanes that have ended and of which the manifest knows nothing any more."""
        for number in numbers:
            self.lanes.pop(number, None)


def _rewritten_to(old: Manifest, newest: Manifest) -> dict[int, int]:
    """Per lane that key compaction has taken records from: the end of what it rewrote."""
    known, names = old.names(), newest.names()
    if known <= names:
        return {}
    gone = [entry for entry in old.segments if entry.name not in names]
    made = [entry for entry in newest.segments if entry.base < old.end and entry.name not in known]
    lost: Counter[int] = Counter()
    for entries, sign in ((gone, 1), (made, -1)):
        for entry in entries:
            for span in entry.spans():
                lost[span.lane] += sign * span.records
    return {
        span.lane: span.last + 1 for entry in made for span in entry.spans() if lost[span.lane] > 0
    }
