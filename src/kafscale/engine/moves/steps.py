"""What a broker does for a topic that moves: sealing logs it leaves, filling logs it moves into.

Here: one step for all logs of one topic that this broker owns. Producers wait while lanes are
sealed, so the work runs in parallel: one flush has all seals of a log, all logs are sealed at the
same time, and the last records of all lanes are copied at the same time. Bytes limit what is in
memory meanwhile, not the number of lanes.
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

NEAR_BYTES: Final = 4 << 20  # a log with less than this to copy has nearly caught up
AGAIN_S: Final = 5.0  # between two passes over a log that is near; longer for many logs
_PASS_BYTES: Final = 64 << 20  # copied in one pass; then the bucket is listed again
_IN_MEMORY_BYTES: Final = 64 << 20  # of all lanes that are being copied
_NEVER: Final = 1 << 62

Sources = Mapping[str, Mapping[int, LaneSource]]  # by folder and lane
Routes = Mapping[str, Mapping[int, LanePlace]]  # by new folder and lane: where the lane comes from
_T = TypeVar("_T")


class MoveStep(NamedTuple):
    """One topic's move, as it was when a step of it began."""

    topic: Topic
    home: TopicDescriptor
    move: Move

    def is_valid(self) -> bool:
        """Whether the move is still the same: a step must not end in another phase (rule 23)."""
        return self.topic.descriptor.moving == self.move

    def require_valid(self) -> None:
        """Raise NotTheOwner if the step is not valid any more."""
        if not self.is_valid():
            raise NotTheOwner(f"the move of {self.topic.name} has changed")


class MoveSteps:
    """This broker's part in moves."""

    def __init__(
        self, logs: OpenLogs, cluster: Membership, store: ObjectStore, reports: MoveReports
    ) -> None:
        self._reports = reports
        self._logs = logs
        self._cluster = cluster
        self._store = store
        # By whether producers wait: urgent copies never wait for memory that others have.
        self._budgets = {True: ByteBudget(_IN_MEMORY_BYTES), False: ByteBudget(_IN_MEMORY_BYTES)}
        self._opening = asyncio.Semaphore(survey.READS_AT_ONCE)
        self._routes: dict[str, Routes] = {}  # by move
        self._copied_s: dict[str, float] = {}  # by folder: when a log was last filled

    def end(self, move_id: str) -> None:
        """Drop what is known about a move that is over."""
        for folder in self._routes.pop(move_id, {}):
            self._copied_s.pop(folder, None)

    async def _open(self, step: MoveStep, folder: str, uses_shared_logs: bool) -> Log:
        async with self._opening:
            step.require_valid()
            log = await self._logs.open_log(folder, None if uses_shared_logs else step.topic)
        if not step.is_valid():
            self._logs.leave(step.topic)
        step.require_valid()
        return log

    # -- the old place -------------------------------------------------------------------------

    async def seal_old_lanes(self, step: MoveStep, reports: Reports) -> None:
        """Seal the lanes that the topic leaves, in the logs that this broker owns."""

        async def seal_log(folder: str) -> None:
            log = await self._open(step, folder, step.home.layout == "shared")
            ends = await seals.seal_all(log, places.lanes_in(step.home, folder))
            report = MoveReport(move_id=step.move.move_id, state="sealed", ends=ends)
            await self._reports.put(step.topic, folder, report)

        ours = [
            folder
            for folder in places.log_folders(step.home)
            if folder not in reports and self._cluster.may_open(folder)
        ]
        await _await_all(seal_log(folder) for folder in ours)

    # -- the new place -------------------------------------------------------------------------

    async def fill_new_logs(self, step: MoveStep, reports: Reports) -> None:
        """Copy what is missing in the new logs that this broker owns.

        The reports of seals were read before the old logs are: so all sealed records are seen
        (rule 16).
        """
        due = {
            folder: lanes
            for folder, lanes in self._routes_of(step).items()
            if self._cluster.may_open(folder) and self._is_due(step, folder, lanes, reports)
        }
        if not due:
            return
        sources, store = await self._read_sources(due.values())
        count = sum(len(lanes) for lanes in due.values())
        room = _PASS_BYTES // min(count, survey.READS_AT_ONCE)
        work = (self._fill(step, *log, reports, sources, store, room) for log in due.items())
        await _await_all(work)

    def _routes_of(self, step: MoveStep) -> Routes:
        known = self._routes.get(step.move.move_id)
        if known is None:
            routes: dict[str, dict[int, LanePlace]] = {}
            new_places = places.each_place(step.home.after_move())
            for (_, old), (_, new) in zip(places.each_place(step.home), new_places, strict=True):
                routes.setdefault(new.folder, {})[new.lane] = old
            self._routes[step.move.move_id] = known = routes
        return known

    def _is_due(
        self, step: MoveStep, folder: str, lanes: Mapping[int, LanePlace], reports: Reports
    ) -> bool:
        """Whether there is anything to copy into a log now."""
        state = reports[folder].state if folder in reports else ""
        if state == "done":
            return False
        if state and not step.move.sealing:
            now_s = asyncio.get_running_loop().time()
            # Every pass costs a few requests for each log.
            logs = max(step.home.logs, len(self._routes_of(step)))
            again_s = AGAIN_S * max(1, logs / survey.READS_AT_ONCE)
            return now_s - self._copied_s.get(folder, 0.0) >= again_s
        return not state or {old.folder for old in lanes.values()} <= reports.keys()

    async def _read_sources(
        self, due: Iterable[Mapping[int, LanePlace]]
    ) -> tuple[Sources, copying.ObjectReader]:
        """Read each old log once, for all new logs that get records from it."""
        wanted: dict[str, set[int]] = {}
        for lanes in due:
            for folder, lane in lanes.values():
                wanted.setdefault(folder, set()).add(lane)
        snapshots = await survey.await_limited(
            survey.take_snapshot(self._store, folder) for folder in wanted
        )
        old_logs = list(zip(snapshots, wanted.values(), strict=True))
        sources = {old_log.folder: copying.sources(old_log, lanes) for old_log, lanes in old_logs}
        return sources, await copying.read_ends(self._store, old_logs)

    async def _fill(
        self,
        step: MoveStep,
        folder: str,
        lanes: Mapping[int, LanePlace],
        reports: Reports,
        sources: Sources,
        store: copying.ObjectReader,
        room: int,
    ) -> None:
        """Copy what is missing in one log, and report how far it is."""
        log = await self._open(step, folder, step.move.layout == "shared")
        lane_sources = {
            lane: source
            for lane, old in lanes.items()
            if (source := sources[old.folder].get(old.lane)) is not None
        }
        is_urgent = step.move.sealing
        budget = self._budgets[is_urgent]
        copied = await _copy(store, log, lane_sources, room, budget)
        if is_urgent:
            log.flush_soon()
        for copied_lane in copied:
            if copied_lane.waiting is not None:
                await wait_for_commit(copied_lane.waiting)
        self._copied_s[folder] = asyncio.get_running_loop().time()
        if all(log.lane(lane).high >= _end(old, reports) for lane, old in lanes.items()):
            starts = {lane: source.start for lane, source in lane_sources.items()}
            if await self._write_manifest(log, lanes, starts):
                await self._report(step, folder, "done")
        elif folder not in reports and sum(copied_lane.size for copied_lane in copied) < NEAR_BYTES:
            await self._report(step, folder, "near")

    async def _report(self, step: MoveStep, folder: str, state: Literal["near", "done"]) -> None:
        report = MoveReport(move_id=step.move.move_id, state=state)
        await self._reports.put(step.topic, folder, report)

    async def _write_manifest(
        self, log: Log, lanes: Iterable[int], starts: Mapping[int, int]
    ) -> bool:
        """Have a manifest say what no batch says: where lanes start, which producers they had."""
        low = {lane: start for lane, start in starts.items() if log.lane(lane).start < start}
        if low:
            await retention.raise_starts(log, low)
        await rollup.roll_up(log)
        if not all(copying.is_in_manifest(log, lane) for lane in lanes):
            await rollup.roll_up(log, always=True)
        # If not, another writer has changed the log meanwhile: the next pass tries again.
        return all(copying.is_in_manifest(log, lane) for lane in lanes) and not any(
            log.lane(lane).start < start for lane, start in low.items()
        )


def _end(old: LanePlace, reports: Reports) -> int:
    """The offset at which an old lane was sealed; beyond all offsets if it is not sealed yet."""
    return reports[old.folder].ends.get(old.lane, _NEVER) if old.folder in reports else _NEVER


async def _copy(
    store: copying.ObjectReader,
    log: Log,
    lane_sources: Mapping[int, LaneSource],
    room: int,
    budget: ByteBudget,
) -> list[copying.CopiedLane]:
    """Copy all lanes, a few at a time. Does not wait for their last commits."""
    gate = asyncio.Semaphore(survey.READS_AT_ONCE)

    async def copy(lane: int, source: LaneSource) -> copying.CopiedLane:
        async with gate:
            return await copying.copy_lane(store, source, log, lane, room, budget)

    return await _await_all(copy(lane, source) for lane, source in lane_sources.items())


async def _await_all(work: Iterable[Awaitable[_T]]) -> list[_T]:
    """Run everything in parallel and to its end; then raise the first failure, if there is one."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
