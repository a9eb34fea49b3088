"""Adding whole segments to the end of a log, beside whoever owns it.

Here: a job as one more member of the chain, under the same rules as a broker: it creates only the
segment that follows the last one it knows, asks for newer manifests before it believes in it
(rules 3 and 4), and then makes it past (rule 12), so that brokers who have the log open take it up.
Whatever comes between raises LostRace: look again and go on from what is there then.
Next door: a broker's own writing (log.py), the rules (docs/formats/log-protocol.md).
"""

from collections.abc import Sequence

import msgspec

from kafscale.log.formats import index, keys, manifest, segment
from kafscale.log.formats.manifest import LaneMark, Manifest
from kafscale.log.formats.producers import SEALER
from kafscale.log.formats.segment import Built, LaneBatches
from kafscale.log.protocol import commits, opening
from kafscale.log.protocol.commits import LostRace
from kafscale.log.writer.committed import View
from kafscale.log.writer.lane import TailMemory
from kafscale.log.writer.tail_memory import Chunk
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import NotTheOwner, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.records import batch

INDEX_FROM_BYTES = 1 << 20


class Appender:
    """One log, opened by a job."""

    def __init__(
        self,
        store: ObjectStore,
        folder: str,
        clock: Clock,
        dice: Dice,
        *,
        author: str,
        index_interval_bytes: int,
    ) -> None:
        """Know nothing yet; `open` looks."""
        self._store = store
        self._folder = folder
        self._clock = clock
        self._dice = dice
        self._author = author
        self._interval = index_interval_bytes
        self._view = View(TailMemory(0))

    async def open(self) -> None:
        """Take up what the bucket says now."""
        opened = await commits.persist(
            lambda: opening.open_log(self._store, self._folder, self._clock, INDEX_FROM_BYTES),
            "open",
        )
        self._view.load(opened)

    async def follow(self) -> None:
        """Take up what was added since, flush by flush; all anew if the past has changed.

        Whoever looks at everything again after each lost race never comes before a busy owner.
        """
        view = self._view
        while True:
            found = await commits.persist(self._after_the_tail, "follow")
            if found is None:
                break
            marks = {number: LaneMark(lane.start, lane.high) for number, lane in view.lanes.items()}
            here = msgspec.structs.replace(
                view.manifest, end=view.end, end_id=tuple(view.tail_id), lanes=marks
            )
            for row in opening.walk(self._folder, here, {view.end: found}, INDEX_FROM_BYTES):
                view.take_up(row)
        if await commits.persist(self._newest_generation, "manifests") != view.manifest.generation:
            await self.open()

    async def _after_the_tail(self) -> memoryview | None:
        try:
            return await self._store.read(keys.segment(self._folder, self._view.end))
        except ObjectMissing:
            return None

    def next(self, lane: int = 0) -> int:
        """The offset that a lane must go on with; a lane that has nothing yet begins anywhere."""
        live = self._view.lanes.get(lane)  # to look at one must not make one
        return live.high if live is not None else 0

    def is_new(self, lane: int) -> bool:
        """Whether nothing was ever written to a lane, and nothing said of it."""
        live = self._view.lanes.get(lane)
        return live is None or not (live.high or live.start or live.epochs)

    def is_sealed(self, lane: int) -> bool:
        """Whether a lane has had its last batch."""
        live = self._view.lanes.get(lane)
        return live is not None and live.producers.is_sealed

    def epoch(self, lane: int = 0) -> int:
        """The newest leader epoch in a lane; it must not go back."""
        live = self._view.lanes.get(lane)
        return live.epochs[-1][0] if live is not None and live.epochs else 0

    async def append(self, lanes: Sequence[LaneBatches]) -> None:
        """Commit one segment, lanes in their order; LostRace if the log is not what we know."""
        numbers = [lane.lane for lane in lanes]
        if not lanes or numbers != sorted(set(numbers)):
            raise ValueError("a segment has at least one lane, each once, in their order")
        for lane in lanes:
            live = self._view.lanes.get(lane.lane)
            if live is not None and live.producers.is_sealed:
                raise NotTheOwner(f"lane {lane.lane} of {self._folder} is sealed: its topic moves")
            if lane.first != self.next(lane.lane) and not self.is_new(lane.lane):
                at = self.next(lane.lane)
                raise ValueError(f"lane {lane.lane} goes on at {at}, not at {lane.first}")
        view = self._view
        built = segment.build(
            view.end,
            view.end + sum(lane.last - lane.first + 1 for lane in lanes),
            lanes,
            created_ms=self._clock.now_ms(),
            token=int.from_bytes(self._dice.token(4)),
            predecessor=view.tail_id,
        )
        key = keys.segment(self._folder, built.base)
        created = await commits.put_same(self._store, key, built.body, "segment")
        if not created and not await commits.is_stored(self._store, key, built.content_id):
            raise LostRace(f"{key} is somebody else's")
        newest = await commits.persist(self._newest_generation, "manifests")
        if newest != view.manifest.generation:
            raise LostRace(f"{self._folder}: manifest {newest} has appeared")
        await self._take_up(built, lanes)
        await self._roll_up()

    async def _newest_generation(self) -> int:
        known = self._view.manifest.generation
        return await commits.newest_generation(self._store, self._folder, known)

    async def _take_up(self, built: Built, lanes: Sequence[LaneBatches]) -> None:
        entry = manifest.flush_entry(built, INDEX_FROM_BYTES)
        if entry.has_index:
            pieces = [lane.batches for lane in lanes]
            hints = index.encode(index.of_pieces(built.spans, pieces, self._interval))
            key = keys.index_of(f"{self._folder}/{entry.name}")
            await commits.put_same(self._store, key, [hints], "index")
        parts = []
        now_ms = self._clock.now_ms()
        for lane, span in zip(lanes, built.spans, strict=True):
            if self.is_new(lane.lane):
                self._view.lane(lane.lane).start = lane.first
            live = self._view.lane(lane.lane)
            for one in lane.batches:
                for _, header in batch.walk(one):
                    live.note_epoch(header.leader_epoch, header.base_offset)
                    if header.producer_id == SEALER:  # rule 14: roll-up must know of it
                        live.producers.remember(header, header.base_offset, now_ms, lane.last + 1)
            live.end = lane.last + 1
            parts.append((span, Chunk(lane.first, lane.last, [], [])))
        self._view.extend(entry, built.content_id, parts)

    async def _roll_up(self) -> None:
        """Make the whole tail past, by name: nothing is copied."""
        view = self._view
        entries = [row.entry for row in view.tail]
        marks = {number: lane.mark() for number, lane in view.lanes.items()}
        before = view.manifest.end

        def change(old: Manifest) -> Manifest:
            if old.end != before:
                raise LostRace(f"{self._folder}: the past ends at {old.end}, not at {before}")
            return manifest.append_history(old, entries, view.end, view.tail_id, marks)

        newest = await commits.commit(
            self._store,
            self._folder,
            view.manifest,
            change,
            is_in=lambda found: found.end >= view.end and entries[-1].name in found.names(),
            author=self._author,
            clock=self._clock,
            dice=self._dice,
        )
        if newest.end != view.end:
            raise LostRace(f"{self._folder}: somebody went on after us")
        view.take_manifest(newest)
