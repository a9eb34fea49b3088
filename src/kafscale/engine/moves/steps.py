"""What a broker does for a topic that moves: sealing logs it leaves, filling logs it moves into.

Here: both for all logs of one topic at a time, as far as they are this broker's. While lanes are
sealed producers wait, so nothing here waits for its turn that could be under way: all seals of a
log are one flush, all logs are sealed at once, and so are the last records copied. What is in
memory meanwhile is limited by bytes, not by lanes.
Next door: when (moves.py), seals and copies (log/moves/seals.py, copying.py).
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeVar

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.moves.reports import MoveReports, Reports
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import places
from kafscale.log.formats.places import LanePlace
from kafscale.log.moves import copying, seals
from kafscale.log.moves.byte_budget import ByteBudget
from kafscale.log.moves.copying import LaneSource
from kafscale.log.protocol import survey
from kafscale.log.upkeep import retention, rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import wait_for_commit
from kafscale.metadata.keys import MoveReport
from kafscale.model.errors import NotTheOwner
from kafscale.model.topics import Move, TopicDescriptor
from kafscale.objects.store import ObjectStore

NEAR_BYTES: Final = 4 << 20  # less than this to copy in one pass: the rest is soon done
AGAIN_S: Final = 5.0  # what is near is kept near until the others are; longer for many logs
_PASS_BYTES: Final = 64 << 20  # then it is looked again what there is
_IN_MEMORY_BYTES: Final = 64 << 20  # of all that is being copied
_NEVER: Final = 1 << 62

Sources = Mapping[str, Mapping[int, LaneSource]]  # by folder and lane
Routes = Mapping[str, Mapping[int, LanePlace]]  # by new folder and lane: where the lane comes from
_T = TypeVar("_T")


class Task(NamedTuple):
    """One topic's move, as it was when a step of it began."""

    topic: Topic
    home: TopicDescriptor
    move: Move

    def is_on(self) -> bool:
        """Whether that is still so: a step ends in the world it began in (rule 23)."""
        return self.topic.descriptor.moving == self.move

    def require(self) -> None:
        """Raise if not."""
        if not self.is_on():
            raise NotTheOwner(f"{self.topic.name} is not on that way any more")


class MoveSteps:
    """This broker's part in moves."""

    def __init__(
        self, logs: OpenLogs, fleet: Membership, store: ObjectStore, reports: MoveReports
    ) -> None:
        """Have nothing under way."""
        self._reports = reports
        self._logs = logs
        self._fleet = fleet
        self._store = store
        # Where producers wait nobody waits for those who have time.
        self._allowances = {True: ByteBudget(_IN_MEMORY_BYTES), False: ByteBudget(_IN_MEMORY_BYTES)}
        self._opening = asyncio.Semaphore(survey.READS_AT_ONCE)
        self._routes: dict[str, Routes] = {}  # by move
        self._copied_s: dict[str, float] = {}  # when logs that are near were last copied to

    def forget(self, move_id: str) -> None:
        """That move is over."""
        for folder in self._routes.pop(move_id, {}):
            self._copied_s.pop(folder, None)

    async def _open(self, task: Task, folder: str, uses_shared_logs: bool) -> Log:
        async with self._opening:
            task.require()
            log = await self._logs.open_log(folder, None if uses_shared_logs else task.topic)
        if not task.is_on():
            self._logs.leave(task.topic)
        task.require()
        return log

    # -- the old place -------------------------------------------------------------------------

    async def seal_ours(self, task: Task, said: Reports) -> None:
        """Let the lanes that the topic leaves take nothing more."""

        async def one(folder: str) -> None:
            log = await self._open(task, folder, task.home.layout == "shared")
            ends = await seals.seal_all(log, places.lanes_in(task.home, folder))
            report = MoveReport(move_id=task.move.move_id, state="sealed", ends=ends)
            await self._reports.put(task.topic, folder, report)

        ours = [
            folder
            for folder in places.log_folders(task.home)
            if folder not in said and self._fleet.may_open(folder)
        ]
        await _all_of(one(folder) for folder in ours)

    # -- the new place -------------------------------------------------------------------------

    async def bring_ours(self, task: Task, said: Reports) -> None:
        """Copy what is missing in the new logs.

        What is sealed was read before what is there is looked at: so all of it is seen (rule 16).
        """
        due = {
            folder: lanes
            for folder, lanes in self._routes_of(task).items()
            if self._fleet.may_open(folder) and self._is_due(task, folder, lanes, said)
        }
        if not due:
            return
        sources, store = await self._look(due.values())
        count = sum(len(lanes) for lanes in due.values())
        room = _PASS_BYTES // min(count, survey.READS_AT_ONCE)
        work = (self._bring(task, *row, said, sources, store, room) for row in due.items())
        await _all_of(work)

    def _routes_of(self, task: Task) -> Routes:
        known = self._routes.get(task.move.move_id)
        if known is None:
            found: dict[str, dict[int, LanePlace]] = {}
            there = places.each_place(task.home.after_move())
            for (_, old), (_, new) in zip(places.each_place(task.home), there, strict=True):
                found.setdefault(new.folder, {})[new.lane] = old
            self._routes[task.move.move_id] = known = found
        return known

    def _is_due(
        self, task: Task, folder: str, lanes: Mapping[int, LanePlace], said: Reports
    ) -> bool:
        """Whether there is anything to copy into a log now."""
        state = said[folder].state if folder in said else ""
        if state == "done":
            return False
        if state and not task.move.sealing:
            now_s = asyncio.get_running_loop().time()
            # Every look is a few requests for each log, to be paid for.
            logs = max(task.home.logs, len(self._routes_of(task)))
            again_s = AGAIN_S * max(1, logs / survey.READS_AT_ONCE)
            return now_s - self._copied_s.get(folder, 0.0) >= again_s
        return not state or {old.folder for old in lanes.values()} <= said.keys()

    async def _look(
        self, due: Iterable[Mapping[int, LanePlace]]
    ) -> tuple[Sources, copying.ObjectReader]:
        """Each log that something comes from, once for all that it goes to."""
        wanted: dict[str, set[int]] = {}
        for lanes in due:
            for folder, lane in lanes.values():
                wanted.setdefault(folder, set()).add(lane)
        seen = await survey.await_limited(survey.take_snapshot(self._store, one) for one in wanted)
        rows = list(zip(seen, wanted.values(), strict=True))
        sources = {found.folder: copying.sources(found, lanes) for found, lanes in rows}
        return sources, await copying.read_ends(self._store, rows)

    async def _bring(
        self,
        task: Task,
        folder: str,
        lanes: Mapping[int, LanePlace],
        said: Reports,
        sources: Sources,
        store: copying.ObjectReader,
        room: int,
    ) -> None:
        """Copy what is missing in one log, and tell how far it is."""
        log = await self._open(task, folder, task.move.layout == "shared")
        from_where = {
            lane: source
            for lane, old in lanes.items()
            if (source := sources[old.folder].get(old.lane)) is not None
        }
        is_urgent = task.move.sealing
        allowance = self._allowances[is_urgent]
        copied = await _copy(store, log, from_where, room, allowance)
        if is_urgent:
            log.flush_soon()
        for one in copied:
            if one.waiting is not None:
                await wait_for_commit(one.waiting)
        self._copied_s[folder] = asyncio.get_running_loop().time()
        if all(log.lane(lane).high >= _end(old, said) for lane, old in lanes.items()):
            starts = {lane: source.start for lane, source in from_where.items()}
            if await self._make_past(log, lanes, starts):
                await self._report(task, folder, "done")
        elif folder not in said and sum(one.size for one in copied) < NEAR_BYTES:
            await self._report(task, folder, "near")

    async def _report(self, task: Task, folder: str, state: Literal["near", "done"]) -> None:
        report = MoveReport(move_id=task.move.move_id, state=state)
        await self._reports.put(task.topic, folder, report)

    async def _make_past(self, log: Log, lanes: Iterable[int], starts: Mapping[int, int]) -> bool:
        """What no batch tells must be in a manifest: where lanes begin, who produced there."""
        low = {lane: at for lane, at in starts.items() if log.lane(lane).start < at}
        if low:
            await retention.raise_starts(log, low)
        await rollup.roll_up(log)
        if not all(copying.is_in_manifest(log, lane) for lane in lanes):
            await rollup.roll_up(log, always=True)
        # If not, somebody came between: the next pass looks again.
        return all(copying.is_in_manifest(log, lane) for lane in lanes) and not any(
            log.lane(lane).start < at for lane, at in low.items()
        )


def _end(old: LanePlace, said: Reports) -> int:
    """Where a lane ended, if that is known."""
    return said[old.folder].ends.get(old.lane, _NEVER) if old.folder in said else _NEVER


async def _copy(
    store: copying.ObjectReader,
    log: Log,
    from_where: Mapping[int, LaneSource],
    room: int,
    allowance: ByteBudget,
) -> list[copying.CopiedLane]:
    """All lanes, a few at a time; their last commits are not waited for."""
    gate = asyncio.Semaphore(survey.READS_AT_ONCE)

    async def one(lane: int, source: LaneSource) -> copying.CopiedLane:
        async with gate:
            return await copying.copy_lane(store, source, log, lane, room, allowance)

    return await _all_of(one(*row) for row in from_where.items())


async def _all_of(work: Iterable[Awaitable[_T]]) -> list[_T]:
    """Everything at once and to its end, whatever fails of it; then the first failure is raised."""
    found = await asyncio.gather(*work, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return [one for one in found if not isinstance(one, BaseException)]
