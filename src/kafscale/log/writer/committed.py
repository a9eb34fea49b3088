"""A log as this process knows it: the past by its manifest, the committed tail, the lanes.

Here: taking up what the bucket says and what has just been committed. No store, no waiting.
Next door: the writer that adds to it (log.py), the walk through the bucket (opening.py).
"""

from collections.abc import Iterable

from kafscale.log.formats import segment
from kafscale.log.formats.manifest import Entry, Manifest
from kafscale.log.formats.segment import ContentId, Span
from kafscale.log.protocol import commits
from kafscale.log.protocol.opening import Opened, TailSegment
from kafscale.log.writer.lane import Lane, TailMemory
from kafscale.log.writer.tail_memory import Chunk
from kafscale.log.writer.types import Tail
from kafscale.records import batch


class View:
    """What is committed, as of our last look."""

    def __init__(self, memory: TailMemory) -> None:
        """Begin with an empty log."""
        self.memory = memory
        self.lanes: dict[int, Lane] = {}
        self.manifest: Manifest = commits.before_any()
        self.tail: list[Tail] = []
        self.tail_bytes = 0
        self.dead_bytes = 0  # below lane starts, in segments that stay for other lanes' sake
        self.sweep_due = True
        self.end = 0  # the position after the last committed record
        self.tail_id = segment.NOTHING_BEFORE  # content id of the last committed flush

    def lane(self, number: int) -> Lane:
        """The lane of that number, empty if nothing was ever written to it."""
        found = self.lanes.get(number)
        if found is None:
            found = self.lanes[number] = Lane(number)
        return found

    def load(self, opened: Opened) -> None:
        """Forget everything and take up what was found in the bucket."""
        self.release()
        for lane in self.lanes.values():
            lane.reset()
        self.tail = []
        self.tail_bytes = 0
        self.sweep_due = True
        self.manifest = opened.manifest
        self.end = opened.manifest.end
        self.tail_id = ContentId._make(opened.manifest.end_id)
        for number, mark in opened.manifest.lanes.items():
            self.lane(number).restore(mark)
        self._list_past()
        for found in opened.tail:
            self.take_up(found)

    def release(self) -> None:
        """Give back the memory that the recent batches take."""
        for lane in self.lanes.values():
            self.memory.release(lane)

    def extend(
        self, entry: Entry, content_id: ContentId, parts: Iterable[tuple[Span, Chunk]]
    ) -> None:
        """Add a committed flush: from here on readers see it."""
        chunks = []
        for span, chunk in parts:
            lane = self.lane(span.lane)
            lane.high = span.last + 1
            lane.add_span(span, entry)
            self.memory.keep(lane, chunk)
            chunks.append((span.lane, chunk))
        self.tail.append(Tail(entry, chunks))
        self.tail_bytes += entry.size
        self.end = entry.end
        self.tail_id = content_id

    def take_up(self, found: TailSegment) -> None:
        """Adopt a flush that is in the bucket: offsets, producers, epochs, memory."""
        parts = []
        for span in found.content.spans:
            lane = self.lane(span.lane)
            if not lane.end:
                lane.start = span.first  # that of a topic that has moved in is any offset
            firsts: list[int] = []
            batches: list[memoryview] = []
            for at, header in batch.walk(found.data, span.start, span.start + span.length):
                if header.producer_id >= 0:
                    lane.producers.remember(
                        header, header.base_offset, found.content.created_ms, 1 << 62
                    )
                lane.note_epoch(header.leader_epoch, header.base_offset)
                firsts.append(header.base_offset)
                batches.append(found.data[at : at + header.size])
            lane.end = span.last + 1
            parts.append((span, Chunk(span.first, span.last, firsts, batches)))
        self.extend(found.entry, found.content.content_id, parts)

    def _list_past(self) -> None:
        for entry in self.manifest.segments:
            for span in entry.spans():
                self.lane(span.lane).add_span(span, entry)
        self.dead_bytes = sum(lane.forget_spans_before(lane.start) for lane in self.lanes.values())

    def boundaries(self) -> set[int]:
        """Positions at which a manifest may end and our chain still go on."""
        return {self.manifest.end, *(row.entry.end for row in self.tail)}

    def take_manifest(self, newest: Manifest) -> None:
        """Make a newer manifest, which ends at a boundary of our chain, our past."""
        self.manifest = newest
        self.sweep_due = True
        self.tail = [row for row in self.tail if row.entry.base >= newest.end]
        self.tail_bytes = sum(row.entry.size for row in self.tail)
        for number, mark in newest.lanes.items():
            lane = self.lane(number)
            lane.start = max(lane.start, mark.start)
        for lane in self.lanes.values():
            lane.forget_spans()
        self._list_past()
        for row in self.tail:
            for span in row.entry.spans():
                self.lane(span.lane).add_span(span, row.entry)
