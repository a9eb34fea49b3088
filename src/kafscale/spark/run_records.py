"""What runs of jobs leave in the bucket, for people, the console and later runs.

Here: a record when a run begins, one with its report when it ends, and the newest fifty of a job.
A run without an end has died, or still runs. Records are for looking at: no result depends on one.
Next door: the report (job.py), the names (log/formats/keys.py).
"""

import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import structlog

from kafscale.log.formats import keys
from kafscale.model.errors import KafscaleError, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Report

logger = structlog.get_logger()

KEPT: Final = 50  # runs of each job
_MOST_ROWS: Final = 1000  # of a report; a record is for looking at
_END: Final = "-end"


class RunBegan(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a run begins."""

    job: str
    started_ms: int
    host: str = ""
    pid: int = 0
    runner: str = ""  # the runner that does it; empty: a person started it
    topics: list[str] = []  # empty: all


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended."""

    job: str
    started_ms: int
    ended_ms: int
    ok: bool
    error: str = ""
    runner: str = ""
    topics: list[str] = []
    facts: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    notes: list[str] = []


class RecordedRun(NamedTuple):
    """A run as the bucket shows it."""

    key: str
    began: RunBegan
    ended: RunEnded | None


class RunRecord:
    """One run: note its begin, then its end. A bucket that refuses a note does not stop the run."""

    def __init__(
        self, bucket: Bucket, job: str, topics: Sequence[str] = (), runner: str = ""
    ) -> None:
        """Note that it begins."""
        self._bucket = bucket
        self.began = RunBegan(
            job=job,
            started_ms=bucket.clock.now_ms(),
            host=socket.gethostname(),
            pid=os.getpid(),
            runner=runner,
            topics=list(topics)[:_MOST_ROWS],
        )
        token = bucket.dice.token(4).hex()
        self._key = keys.run_began(bucket.namespace, job, self.began.started_ms, token)
        self._put(self._key, self.began)

    def end(self, report: Report | None = None, error: str = "") -> RunEnded:
        """Note how it ended, and forget the oldest runs of the job."""
        began = self.began
        ended = RunEnded(
            job=began.job,
            started_ms=began.started_ms,
            ended_ms=self._bucket.clock.now_ms(),
            ok=not error and (report is None or not report.exit_code),
            error=error,
            runner=began.runner,
            topics=began.topics,
            facts=dict(report.facts) if report else {},
            rows=report.rows[:_MOST_ROWS] if report else [],
            notes=report.notes[:_MOST_ROWS] if report else [],
        )
        self._put(keys.run_ended(self._key), ended)
        self._tolerate(lambda: _forget_oldest(self._bucket, began.job))
        return ended

    def _put(self, key: str, body: object) -> None:
        encoded = msgspec.json.encode(body, enc_hook=str)
        self._tolerate(lambda: self._bucket.put_new(key, [encoded]))

    @staticmethod
    def _tolerate(work: Callable[[], None]) -> None:
        try:
            work()
        except KafscaleError as problem:
            logger.warning("run_not_recorded", error=str(problem))


class Endable(Protocol):
    """A record whose end can be noted."""

    def end(self, report: Report | None = None, error: str = "") -> object:
        """Note how the run ended."""
        ...


def recorded(record: Endable, work: Callable[[], Report]) -> Report:
    """Do some work and note how it ended, whatever happens."""
    try:
        report = work()
    except BaseException as problem:
        record.end(error=first_line(problem))
        raise
    record.end(report)
    return report


def first_line(problem: BaseException) -> str:
    """What went wrong, in one line."""
    lines = str(problem).strip().splitlines()
    return (lines[0] if lines else type(problem).__name__)[:500]


def recorded_runs(bucket: Bucket, job: str) -> list[RecordedRun]:
    """The runs of a job that are on record, the newest first."""
    folder = keys.runs_folder(bucket.namespace, job)

    async def look(store: ObjectStore) -> list[RecordedRun]:
        rows = {row.key for row in await store.find(folder)}
        runs = []
        for key in sorted((key for key in rows if not key.endswith(_END)), reverse=True):
            try:
                began = msgspec.json.decode(await store.read(key), type=RunBegan)
                ended = None
                if (end := keys.run_ended(key)) in rows:
                    ended = msgspec.json.decode(await store.read(end), type=RunEnded)
            except (ObjectMissing, msgspec.DecodeError):
                continue  # forgotten meanwhile, or no record of this version
            runs.append(RecordedRun(key, began, ended))
        return runs

    return bucket.run(look)


def _forget_oldest(bucket: Bucket, job: str) -> None:
    async def forget(store: ObjectStore) -> None:
        rows = sorted(row.key for row in await store.find(keys.runs_folder(bucket.namespace, job)))
        begins = [key for key in rows if not key.endswith(_END)]
        kept = set(begins[-KEPT:])
        doomed = [key for key in rows if key.removesuffix(_END) not in kept]
        if doomed:
            await store.delete(doomed[:1000])

    bucket.run(forget)
