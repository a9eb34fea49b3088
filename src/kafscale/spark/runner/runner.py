"""The loop: look at the topics, start what is due, note how it went, until it is stopped.

Here: threads, the one session, leases renewed, failures noted. A look, a renewal and each piece of
work fail by themselves: the loop goes on. What is due is planner.py's to say.
Next door: the command (jobs' list in cli/bucket/pipeline.py), the work (tasks.py).
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from kafscale.model.errors import KafscaleError
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.stopping import Stop
from kafscale.spark.run_records import (
    Endable,
    RunRecord,
    first_line,
    recorded,
    recorded_runs,
)
from kafscale.spark.runner import planner, tasks
from kafscale.spark.runner.declared import Allowances
from kafscale.spark.runner.membership import LEASE_MS, RunnerMembership
from kafscale.spark.runner.planner import EXPORT, DueWork, Past, PlannedWork, Rhythm, WorkKey
from kafscale.spark.runner.series import RunnerSeries

logger = structlog.get_logger()

AUDIT_SHARE: Final = 0.1
LOOK_S: Final = 30.0  # between two readings of all descriptors
_TICK_S: Final = 0.2
_MAINTENANCE: Final = planner.KINDS[1:]


@dataclass(frozen=True)
class RunnerOptions:
    """What a runner is told."""

    allowed: Allowances = field(default_factory=Allowances)
    rhythm: Rhythm = field(default_factory=Rhythm)
    parallel: int = 4  # pieces of work at once
    look_s: float = LOOK_S
    once: bool = False  # do what is due now, once, and end
    lease_ms: int = LEASE_MS  # after so long without a sign a runner counts as dead
    audit_share: float = AUDIT_SHARE  # of the objects that one audit opens


class Runner:
    """Keeps a bucket in shape."""

    def __init__(self, context: Context, options: RunnerOptions, series: RunnerSeries) -> None:
        """Nothing is read or started yet."""
        self._context = context
        self._bucket = context.bucket
        self._options = options
        self._series = series
        self._clock = context.bucket.clock
        self._members = RunnerMembership(self._bucket, options.lease_ms)
        self._works: list[PlannedWork] = []
        self._runners: list[str] = []
        self._past: dict[WorkKey, Past] = {}
        self._ends: tasks.Ends = {}
        self._running: dict[WorkKey, Future[None]] = {}
        self._tried: set[WorkKey] = set()  # since the start
        self._lock = threading.Lock()
        self._since_ms = 0
        self._looked_s = -1e9
        self._renewed_s = -1e9
        self.failed = 0  # pieces of work, since the start
        self.done = 0

    @property
    def name(self) -> str:
        """Its name among the runners."""
        return self._members.runner

    def run(self, stop: Stop) -> None:
        """Go on until stopped; what is under way ends with its next commit."""
        self._since_ms = self._clock.now_ms()
        self._remember()
        with ThreadPoolExecutor(self._options.parallel, "kafscale-work") as pool:
            try:
                while not stop.asked:
                    self._look()
                    began_s = self._clock.elapsed_s()
                    self._start_due(pool, stop)
                    planned_s = self._clock.elapsed_s() - began_s
                    if self._options.once and not self._running and not self._due():
                        break
                    # Very many topics take a while to plan: most of the time is for the work.
                    stop.sleep(max(_TICK_S, 4 * planned_s))
            finally:
                stop.asked = stop.asked or not self._options.once
                for work in list(self._running.values()):
                    work.result()
                self._tolerate("lease_not_given_up", self._members.leave)

    def _remember(self) -> None:
        """Learn from earlier runs when maintenance was done last."""

        def read() -> None:
            for kind in _MAINTENANCE:
                for run in reversed(recorded_runs(self._bucket, kind)):
                    ended = run.ended
                    if ended is None or not ended.ok or not ended.facts.get("subject"):
                        continue
                    took_ms = ended.ended_ms - ended.started_ms
                    key = kind, str(ended.facts["subject"])
                    self._past[key] = Past(ended.started_ms, ended.started_ms, took_ms)

        self._tolerate("runs_not_read", read)

    def _look(self) -> None:
        """Renew the lease, and read the topics, when it is time."""
        now_s = self._clock.elapsed_s()
        if now_s - self._renewed_s >= self._members.renew_every_s:
            self._renewed_s = now_s
            self._tolerate("lease_not_renewed", self._renew)
        if now_s - self._looked_s >= self._options.look_s:
            self._looked_s = now_s
            self._tolerate("topics_not_read", self._read_topics)

    def _renew(self) -> None:
        self._runners = self._members.renew()
        self._series.runners.set(len(self._runners))
        self._series.keep_only(self._mine())

    def _read_topics(self) -> None:
        topics = self._bucket.select(self._context.topics)
        self._works = planner.works_of(topics, self._options.rhythm)
        self._series.keep_only(self._mine())
        # Reading very many takes a while: then they are read less often.
        took_s = self._clock.elapsed_s() - self._looked_s
        self._looked_s += 10 * took_s if took_s > 1 else 0

    def _mine(self) -> list[PlannedWork]:
        return planner.mine(self._works, self.name, self._runners or [self.name])

    def _due(self) -> list[DueWork]:
        with self._lock:
            works = self._mine()
            if self._options.once:
                works = [work for work in works if work.key not in self._tried]
            return planner.due_work(
                works,
                self._past,
                self._running.keys(),
                self._clock.now_ms(),
                self._since_ms,
            )

    def _start_due(self, pool: ThreadPoolExecutor, stop: Stop) -> None:
        """Fill the free threads; one is kept for exports."""
        for due in self._due():
            with self._lock:
                others = sum(kind != EXPORT for kind, _ in self._running)
                free = self._options.parallel - len(self._running)
                is_export = due.work.kind == EXPORT
                if free <= 0 or (not is_export and others >= max(1, self._options.parallel - 1)):
                    continue
                self._tried.add(due.work.key)
                self._running[due.work.key] = pool.submit(self._do, due.work, stop)

    def _do(self, work: PlannedWork, stop: Stop) -> None:
        """One piece of work, in a thread of the pool. It raises nothing."""
        began_ms = self._clock.now_ms()
        began_s = self._clock.elapsed_s()
        try:
            self._run(work, stop)
        except BaseException as problem:  # a library that panics raises what is no Exception
            self._note_failure(work, began_ms, problem)
        else:
            took_ms = round((self._clock.elapsed_s() - began_s) * 1000)
            with self._lock:
                self._past[work.key] = Past(began_ms, began_ms, took_ms)
                self.done += 1
            self._series.succeeded(work, began_ms, took_ms)
        finally:
            with self._lock:
                self._running.pop(work.key, None)

    def _run(self, work: PlannedWork, stop: Stop) -> None:
        context = self._context
        if work.kind == EXPORT:
            self._export(context, work, stop)
            return
        record = RunRecord(self._bucket, work.kind, work.topics, self.name)
        self._recorded(
            record,
            work,
            lambda: tasks.run_work(
                replace(context), work, self._options.allowed, self._options.audit_share
            ),
        )

    def _export(self, context: Context, work: PlannedWork, stop: Stop) -> None:
        """An export leaves a record only if there was something to do."""
        with self._lock:
            known = dict(self._ends)
        record = _LateRecord(self._bucket, work, self.name)

        def run() -> Report:
            report, ends = tasks.run_export(
                replace(context, progress=record.note_progress),
                work,
                self._options.allowed,
                stop,
                known,
            )
            with self._lock:
                self._ends.update(ends)
            self._series.exported(report)
            return report

        self._recorded(record, work, run)

    def _recorded(self, record: Endable, work: PlannedWork, run: Callable[[], Report]) -> None:
        def named() -> Report:
            report = run()
            report.facts["subject"] = work.subject
            return report

        report = recorded(record, named)
        if report.exit_code:
            raise WorkFailed("; ".join(report.notes[:3]) or f"{work.kind} found problems")

    def _note_failure(self, work: PlannedWork, began_ms: int, problem: BaseException) -> None:
        with self._lock:
            known = self._past.get(work.key)
            failures = 1 + (known.failures if known else 0)
            covered_ms = known.covered_ms if known else self._since_ms - work.every_ms
            took_ms = known.took_ms if known else 0
            self._past[work.key] = Past(covered_ms, began_ms, took_ms, failures)
            self.failed += 1
        self._series.failed(work)
        again_ms = planner.pause_ms(work, failures)
        logger.warning(
            "work_failed",
            kind=work.kind,
            subject=work.subject,
            error=first_line(problem),
            failures=failures,
            again_in_s=again_ms / 1000,
            exc_info=not isinstance(problem, KafscaleError),
        )

    @staticmethod
    def _tolerate(event: str, work: Callable[[], None]) -> None:
        """A store that does not answer is asked again at the next look."""
        try:
            work()
        except KafscaleError as problem:
            logger.warning(event, error=str(problem))


class WorkFailed(KafscaleError):
    """A job ended with problems that its report names."""


class _LateRecord:
    """The record of an export, written from the moment that there is something to export."""

    def __init__(self, bucket: Bucket, work: PlannedWork, runner: str) -> None:
        self._bucket = bucket
        self._work = work
        self._runner = runner
        self._record: RunRecord | None = None

    def note_progress(self, _what: str, _done: int, _total: int, _unit: str) -> None:
        """The first unit is being worked on: the run has begun."""
        if self._record is None:
            self._record = RunRecord(self._bucket, "export", self._work.topics, self._runner)

    def end(self, report: Report | None = None, error: str = "") -> None:
        """Note the end of what was noted, and every failure."""
        if self._record is None and error:
            self.note_progress("", 0, 0, "")
        if self._record is not None:
            self._record.end(report, error=error)
