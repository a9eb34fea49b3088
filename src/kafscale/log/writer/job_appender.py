"""Adding whole segments to the end of a log, beside the broker that owns it.

Here: a job as one more writer of the chain, under the same rules as a broker. It creates only the
segment that follows the last one it knows. It asks for newer manifests before it counts the
segment as committed (rules 3 and 4). Then it makes the segment past (rule 12), so that brokers
that have the log open load it. Where another writer comes between, LostRace is raised: the caller
follows the log and tries again.
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
from kafscale.log.writer.committed import CommittedLog
from kafscale.log.writer.tail_memory import Chunk, TailMemory
from kafscale.model.clock import Clock, Dice, moment
from kafscale.model.errors import NotTheOwner, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.records import batch

INDEX_FROM_BYTES = 1 << 20


class JobAppender:
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
        """Name the log; `open` reads it."""
        self._store = store
        self._folder = folder
        self._clock = clock
        self._dice = dice
        self._author = author
        self._interval = index_interval_bytes
        self._committed = CommittedLog(TailMemory(0))

    async def open(self) -> None:
        """Read the log from the bucket."""
        opened = await commits.persist(
            lambda: opening.open_log(self._store, self._folder, self._clock, INDEX_FROM_BYTES),
            "open",
        )
        self._committed.load(opened)

    async def follow(self) -> None:
        """Load what was added since, flush by flush; everything if the past has changed.

        A job that reads everything again after each lost race would never be faster than a busy
        owner.
        """
        committed = self._committed
        while True:
            data = await commits.persist(self._read_next, "follow")
            if data is None:
                break
            marks = {
                number: LaneMark(lane.start, lane.high) for number, lane in committed.lanes.items()
            }
            here = msgspec.structs.replace(
                committed.manifest, end=committed.end, end_id=tuple(committed.end_id), lanes=marks
            )
            for found in opening.walk(self._folder, here, {committed.end: data}, INDEX_FROM_BYTES):
                committed.add_found(found)
        if (
            await commits.persist(self._newest_generation, "manifests")
            != committed.manifest.generation
        ):
            await self.open()

    async def _read_next(self) -> memoryview | None:
        try:
            return await self._store.read(keys.segment(self._folder, self._committed.end))
        except ObjectMissing:
            return None

    def next(self, lane: int = 0) -> int:
        """The offset that a lane must go on with; a lane that has nothing yet begins anywhere."""
        live = self._committed.lanes.get(lane)  # a question must not create the lane
        return live.high if live is not None else 0

    def is_new(self, lane: int) -> bool:
        """Whether nothing was ever written to a lane, and nothing said of it."""
        live = self._committed.lanes.get(lane)
        return live is None or not (live.high or live.start or live.epochs)

    def is_sealed(self, lane: int) -> bool:
        """Whether a lane has had its last batch."""
        live = self._committed.lanes.get(lane)
        return live is not None and live.producers.is_sealed

    def epoch(self, lane: int = 0) -> int:
        """The newest leader epoch in a lane; it must not go back."""
        live = self._committed.lanes.get(lane)
        return live.epochs[-1][0] if live is not None and live.epochs else 0

    async def append(self, lanes: Sequence[LaneBatches]) -> None:
        """Commit one segment, lanes in their order; LostRace if the log is not what we know."""
        numbers = [lane.lane for lane in lanes]
        if not lanes or numbers != sorted(set(numbers)):
            raise ValueError("a segment has at least one lane, each once, in lane order")
        for lane in lanes:
            live = self._committed.lanes.get(lane.lane)
            if live is not None and live.producers.is_sealed:
                raise NotTheOwner(f"lane {lane.lane} of {self._folder} is sealed: its topic moves")
            if lane.first != self.next(lane.lane) and not self.is_new(lane.lane):
                at = self.next(lane.lane)
                raise ValueError(f"lane {lane.lane} goes on at {at}, not at {lane.first}")
        committed = self._committed
        built = segment.build(
            committed.end,
            committed.end + sum(lane.last - lane.first + 1 for lane in lanes),
            lanes,
            created_ms=self._clock.now_ms(),
            token=int.from_bytes(self._dice.token(4)),
            predecessor=committed.end_id,
        )
        key = keys.segment(self._folder, built.base)
        created = await commits.put_same(self._store, key, built.body, "segment")
        if not created and not await commits.is_stored(self._store, key, built.content_id):
            raise LostRace(f"{key} was written by another writer")
        newest = await commits.persist(self._newest_generation, "manifests")
        if newest != committed.manifest.generation:
            raise LostRace(f"{self._folder}: manifest {newest} has appeared")
        await self._add(built, lanes)
        await self._roll_up()

    async def follow_and_append(self, lanes: Sequence[LaneBatches]) -> None:
        """Load what was added since, and append at once; LostRace if a lane has gone on.

        In one coroutine: an owner that flushes all the time leaves about a millisecond, and the
        way back to a job's own thread may take longer than that.
        """
        await self.follow()
        for lane in lanes:
            if lane.first != self.next(lane.lane) and not self.is_new(lane.lane):
                raise LostRace(f"lane {lane.lane} of {self._folder} was filled by another run")
        await self.append(lanes)

    async def _newest_generation(self) -> int:
        known = self._committed.manifest.generation
        return await commits.newest_generation(self._store, self._folder, known)

    async def _add(self, built: Built, lanes: Sequence[LaneBatches]) -> None:
        entry = manifest.flush_entry(built, INDEX_FROM_BYTES)
        if entry.has_index:
            pieces = [lane.batches for lane in lanes]
            hints = index.encode(index.of_pieces(built.spans, pieces, self._interval))
            key = keys.index_of(f"{self._folder}/{entry.name}")
            await commits.put_same(self._store, key, [hints], "index")
        parts = []
        now_ms = self._clock.now_ms()
        for lane, span in zip(lanes, built.spans, strict=True):
            is_new = self.is_new(lane.lane)
            live = self._committed.lane(lane.lane)
            if is_new:
                live.begin_at(lane.first)
            for run in lane.batches:
                for _, header in batch.walk(run):
                    live.note_epoch(header.leader_epoch, header.base_offset)
                    if header.producer_id == SEALER:  # rule 14: roll-up must know of it
                        live.producers.remember(header, header.base_offset, now_ms, lane.last + 1)
            live.advance(lane.last + 1)
            parts.append((span, Chunk(lane.first, lane.last, [], [])))
        self._committed.extend(entry, built.content_id, parts)

    async def _roll_up(self) -> None:
        """Make the whole tail past, by name: no bytes are copied."""
        committed = self._committed
        entries = [flush.entry for flush in committed.tail]
        marks = {number: lane.mark() for number, lane in committed.lanes.items()}
        before = committed.manifest.end
        issued = moment(self._clock)

        def change(old: Manifest) -> Manifest:
            if old.end != before:
                raise LostRace(f"{self._folder}: the past ends at {old.end}, not at {before}")
            return manifest.append_history(old, entries, committed.end, committed.end_id, marks)

        newest = await commits.commit(
            self._store,
            self._folder,
            committed.manifest,
            change,
            is_in=lambda newer: newer.end >= committed.end and entries[-1].name in newer.names(),
            author=self._author,
            clock=self._clock,
            dice=self._dice,
        )
        if newest.end != committed.end:
            raise LostRace(f"{self._folder}: another writer went on after us")
        committed.take_manifest(newest, issued)
