"""Key compaction by a log's owner: of each key only the newest record stays.

Here: the work on what is due of one log, in two passes: one over the new part, which remembers the
last offset of every key, and one over all that may be rewritten. Memory and processor time are
bounded, and the past is locked only while a manifest is committed: the owner acts as a job beside
itself (decision 42), and rules 6 and 7 cover what it commits.
Next door: what is due (cleanable.py), which records survive (records/compacted.py), when
(engine/upkeep/compactions.py), the same at scale (spark/jobs/compaction).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from kafscale.log.formats import manifest, segment
from kafscale.log.formats.manifest import LaneMark, Manifest, Replacement, SegmentEntry
from kafscale.log.formats.segment import LaneBatches, Span
from kafscale.log.formats.transactions import is_aborted
from kafscale.log.protocol import commits
from kafscale.log.protocol.commits import LostRace
from kafscale.log.upkeep import cleanable, rollup
from kafscale.log.upkeep.background_work import BackgroundWork
from kafscale.log.upkeep.cleanable import Cleanable, CompactionLimits, is_within
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.model.buffers import Buffer
from kafscale.model.errors import BadBatch, CorruptObject, ObjectMissing
from kafscale.records import batch, compacted
from kafscale.records.batch import BatchHeader

logger = structlog.get_logger()

_KEY_BYTES: Final = 200  # about what Python needs around the bytes of a key
_MOST_UNPACKED: Final = 256 << 20  # bytes of one batch
# What takes longer than a slice goes to a thread.
_LONG_PLAIN: Final = 64 << 10
_LONG_PACKED: Final = 8 << 10
_LONG_OBJECT: Final = 4 << 20
_LONG_RECORDS: Final = 500
_NO_OFFSET: Final = 1 << 62  # above all


@dataclass(slots=True)
class Compacted:
    """What became of one compaction."""

    removed_records: int = 0
    removed_bytes: int = 0
    is_committed: bool = False  # with its mark; False: some objects may be rewritten all the same
    reached: dict[int, int] = field(default_factory=dict)  # per lane: keys are learnt up to here
    broken: str = ""  # the object that could not be read


def covers(part: Cleanable, reached: Mapping[int, int]) -> bool:
    """Whether all that was due is compacted, as far as it was `reached`."""
    return all(
        span.last < reached.get(span.lane, 0)
        for entry in part.dirty
        for span in entry.spans()
        if is_within(span, part.reach)
    )


async def compact(
    log: Log, part: Cleanable, limits: CompactionLimits, background: BackgroundWork, *, merge: bool
) -> Compacted:
    """Compact what is due of a log. `merge`: make one object of neighbours that are small."""
    work = _Compaction(log, part, limits, background, merge=merge)
    try:
        await work.run()
    except ObjectMissing as problem:
        logger.info("compaction_given_up", folder=log.folder, reason=f"{problem} is gone")
        async with log.history:
            if log.state is LogState.OPEN:
                await log.history.follow()
    except _Broken as problem:
        # What is alive in it may still be readable: nothing is rewritten by guessing.
        work.done.broken = problem.name
        log.observer.found_broken(problem.name)
        logger.error("object_broken", folder=log.folder, reason=str(problem))
    return work.done


class _Broken(Exception):
    """An object that cannot be read as what it should be."""

    def __init__(self, name: str, problem: Exception) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


class _Compaction:
    """One compaction of one log."""

    def __init__(
        self,
        log: Log,
        part: Cleanable,
        limits: CompactionLimits,
        background: BackgroundWork,
        *,
        merge: bool,
    ) -> None:
        self.done = Compacted()
        self._log = log
        self._part = part
        self._background = background
        self._planned_on = log.committed.manifest
        self._first_open = {
            lane: min(row.first for row in mark.transactions.open)
            for lane, mark in self._planned_on.lanes.items()
            if mark.transactions is not None and mark.transactions.open
        }
        self._aborted = {
            lane: mark.transactions.aborted_by_producer()
            for lane, mark in self._planned_on.lanes.items()
            if mark.transactions is not None and mark.transactions.aborted
        }
        self._key_room = limits.memory_bytes // 2
        target = min(log.settings.segment_bytes, limits.memory_bytes // 2) if merge else 0
        self._groups = cleanable.group_entries(part.scope, target)
        # Small logs are read once, not once for each pass.
        self._keeps_objects = sum(entry.size for entry in part.scope) <= limits.memory_bytes // 2
        self._objects: dict[str, memoryview] = {}
        self._newest: dict[int, dict[bytes, int]] = {}  # per lane: key -> its last offset

    async def run(self) -> None:
        """Learn the keys, rewrite group by group; the last commit leaves the mark."""
        await self._learn()
        now_ms = self._log.clock.now_ms()
        horizons = cleanable.horizons(self._planned_on, now_ms, self._part.retention_ms)
        for number, group in enumerate(self._groups, 1):
            replacement = await self._rewrite(group, horizons)
            is_last = number == len(self._groups)
            replacements = [] if replacement is None else [replacement]
            if (replacements or is_last) and not await self._commit(replacements, is_last):
                return
        self.done.is_committed = True

    # -- the first pass ------------------------------------------------------------------------

    async def _learn(self) -> None:
        """Remember keys, as far as there is room for them; the rest is for another compaction."""
        stopped: set[int] = set()
        for entry in self._part.dirty:
            data = await self._read(entry)
            for span in entry.spans():
                if is_within(span, self._part.reach) and span.lane not in stopped:
                    for header, whole in _batches(entry, span, data):
                        if self._key_room <= 0:
                            return
                        if header.base_offset >= self._first_open.get(span.lane, _NO_OFFSET):
                            # Rule T13: whether it counts is not known, nothing beyond is touched.
                            stopped.add(span.lane)
                            break
                        # Records of aborted transactions shadow no others.
                        if not is_aborted(self._aborted.get(span.lane, {}), header):
                            await self._learn_batch(entry, span.lane, header, whole)
                    else:
                        self.done.reached[span.lane] = span.last + 1

    async def _learn_batch(
        self, entry: SegmentEntry, lane: int, header: BatchHeader, whole: memoryview
    ) -> None:
        if header.last_offset < cleanable.clean_to(self._planned_on.lanes.get(lane, _NO_MARK)):
            return  # an earlier compaction has learnt it
        newest = self._newest.setdefault(lane, {})
        known = len(newest)

        def work() -> int:
            return compacted.learn_keys(whole, header, newest, _MOST_UNPACKED)

        try:
            key_bytes = await self._background.do(work, is_long=_is_long(header))
        except BadBatch as problem:
            raise _Broken(entry.name, problem) from problem
        self._key_room -= key_bytes + _KEY_BYTES * (len(newest) - known)
        self.done.reached[lane] = header.next_offset

    # -- the second pass -----------------------------------------------------------------------

    async def _rewrite(
        self, group: Sequence[SegmentEntry], horizons: Mapping[int, int]
    ) -> Replacement | None:
        """Write what is left of a group as one object; None if it loses nothing."""
        lanes: dict[int, _LanePieces] = {}
        removed = 0
        for entry in group:
            data = await self._read(entry)
            for span in entry.spans():
                pieces = lanes.setdefault(span.lane, _LanePieces(span.lane, span.first))
                pieces.last = span.last
                if not is_within(span, self._part.reach):
                    pieces.add_span(span, data)  # what it is not about stays as it is
                    continue
                newest, horizon = self._newest.get(span.lane, {}), horizons.get(span.lane, 0)
                for header, whole in _batches(entry, span, data):
                    if is_aborted(self._aborted.get(span.lane, {}), header):
                        removed += pieces.add_nothing_of(header)
                        continue
                    removed += await self._filter(entry, header, whole, newest, horizon, pieces)
        if not removed:
            return None
        rows = [lanes[number].lane_batches() for number in sorted(lanes)]
        written = await rollup.write_anew(self._log, group[0].base, group[-1].end, rows)
        self.done.removed_records += removed
        self.done.removed_bytes += sum(entry.size for entry in group) - written.size
        return Replacement(tuple(group), (written,))

    async def _filter(
        self,
        entry: SegmentEntry,
        header: BatchHeader,
        whole: memoryview,
        newest: Mapping[bytes, int],
        horizon: int,
        pieces: "_LanePieces",
    ) -> int:
        """Add what is left of a batch; gives how many records it loses."""

        def work() -> compacted.LeftOfBatch:
            return compacted.left_of(whole, header, newest, horizon, _MOST_UNPACKED)

        try:
            left = await self._background.do(work, is_long=_is_long(header))
        except BadBatch as problem:
            raise _Broken(entry.name, problem) from problem
        pieces.add_batch(left)
        return left.removed

    async def _read(self, entry: SegmentEntry) -> memoryview:
        """The whole object, checked."""
        if (kept := self._objects.get(entry.name)) is not None:
            return kept
        key = f"{self._log.folder}/{entry.name}"
        data = await commits.persist(lambda: self._log.store.read(key), "compaction read")
        try:
            found = await self._background.do(
                lambda: segment.parse(data), is_long=len(data) >= _LONG_OBJECT
            )
        except CorruptObject as problem:
            raise _Broken(entry.name, problem) from problem
        if found.content_id != entry.content_id:
            raise _Broken(entry.name, CorruptObject("not the object that was committed"))
        if self._keeps_objects:
            self._objects[entry.name] = data
        return data

    async def _commit(self, replacements: Sequence[Replacement], is_last: bool) -> bool:
        """Let outputs stand for their inputs; with the last of them, write how far it went."""
        log, reached = self._log, self.done.reached if is_last else {}
        outputs = [entry.name for row in replacements for entry in row.outputs]
        now_ms = log.clock.now_ms()

        def change(old: Manifest) -> Manifest:
            if not all(manifest.replaces(old, row) for row in replacements):
                raise LostRace("another process rewrote these objects")
            changed = manifest.replace(old, replacements) if replacements else old
            return cleanable.mark_cleaned(changed, reached, now_ms, self._part.retention_ms)

        def is_in(newer: Manifest) -> bool:
            return set(outputs) <= newer.names() and cleanable.is_marked(newer, reached)

        async with log.history:
            if log.state is not LogState.OPEN:
                return False
            base = log.committed.manifest
            try:
                # Rule 7: what is older than the last look may have been swept meanwhile.
                if base.generation != self._planned_on.generation:
                    await commits.check_outputs(log.store, log.folder, base, outputs)
                change(base)
            except LostRace as problem:
                logger.info("compaction_given_up", folder=log.folder, reason=str(problem))
                return False
            return await log.history.commit(change, is_in, outputs)


_NO_MARK: Final = LaneMark(0, 0)


def _batches(
    entry: SegmentEntry, span: Span, data: memoryview
) -> "list[tuple[BatchHeader, memoryview]]":
    try:
        return [
            (header, data[at : at + header.size])
            for at, header in batch.walk(data, span.start, span.start + span.length)
        ]
    except BadBatch as problem:
        raise _Broken(entry.name, problem) from problem


def _is_long(header: BatchHeader) -> bool:
    """Whether a batch takes longer than the event loop should wait."""
    most = _LONG_PACKED if header.codec else _LONG_PLAIN
    return header.size > most or header.record_count > _LONG_RECORDS


class _Piece(NamedTuple):
    """Some batches of a lane that stay together."""

    data: Buffer
    records: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    is_empty: bool  # a batch without records, which only holds offsets


class _LanePieces:
    """What is left of one lane in one object."""

    def __init__(self, lane: int, first: int) -> None:
        self.lane = lane
        self.first = first
        self.last = first
        self._pieces: list[_Piece] = []

    def add_span(self, span: Span, data: memoryview) -> None:
        """Add a lane's part of an object as it is."""
        whole = data[span.start : span.start + span.length]
        times_ms = span.min_timestamp_ms, span.max_timestamp_ms
        self._pieces.append(_Piece(whole, span.records, *times_ms, False))

    def add_nothing_of(self, header: BatchHeader) -> int:
        """Add a batch without its records; gives how many there were."""
        made = compacted.without_records(header)
        self.add_batch(compacted.LeftOfBatch(made, 0, header.record_count))
        return header.record_count

    def add_batch(self, left: compacted.LeftOfBatch) -> None:
        """Add what is left of the next batch."""
        header = batch.read_header(left.data)
        self._pieces.append(
            _Piece(
                left.data,
                header.record_count,
                header.base_timestamp_ms,
                header.max_timestamp_ms,
                is_empty=not header.record_count,
            )
        )

    def lane_batches(self) -> LaneBatches:
        """The lane's part of the new object.

        Empty batches go, except the first and the last: so the object covers the offsets it names.
        """
        last = len(self._pieces) - 1
        stay = [
            piece for at, piece in enumerate(self._pieces) if not piece.is_empty or at in (0, last)
        ]
        return LaneBatches(
            self.lane,
            self.first,
            self.last,
            sum(piece.records for piece in stay),
            min(piece.min_timestamp_ms for piece in stay),
            max(piece.max_timestamp_ms for piece in stay),
            [piece.data for piece in stay],
        )
