"""From a plan to a new history: units run in waves, and each wave is committed log by log.

Here: packing, waves, the commit of what was written (rules 6 and 7), and the tally. Next door: the
work itself (merge.py, key_compaction.py), rolling up abandoned tails (logs/idle_tails.py).

A sweep deletes an output that no manifest names when it is older than the grace period. A wave is
therefore small enough to end long before. A job that is killed loses one wave of work.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import structlog

from kafscale.log.formats import manifest
from kafscale.log.formats.manifest import Manifest, Replacement
from kafscale.log.protocol import commits
from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution import here_or_spark
from kafscale.spark.execution.units import run_units
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.compaction.merge import Rewritten
from kafscale.spark.jobs.logs.object_io import with_retries

logger = structlog.get_logger()

PACK_BYTES: Final = 64 << 20  # a task costs 40 ms by itself: small units share one
PACK_OBJECTS: Final = 2048
WAVE_BYTES: Final = 2 << 30  # per core: less than the shortest grace period, a minute, takes
NEAR_BYTES: Final = 64 << 20  # a session takes longer to start than this to rewrite
NEAR_OBJECTS: Final = 4096
_RACES: Final = 10


class Unit(Protocol):
    """Work on one log."""

    @property
    def folder(self) -> str:
        """The log."""
        ...

    @property
    def size(self) -> int:
        """Bytes to be read."""
        ...

    @property
    def inputs(self) -> Sequence[Any]:
        """The objects to be read."""
        ...


U = TypeVar("U", bound=Unit)
R = TypeVar("R")


@dataclass(slots=True)
class Tally:
    """The sums over all units."""

    read_bytes: int = 0
    written_bytes: int = 0
    inputs: int = 0
    outputs: int = 0
    lost: int = 0  # groups that another job changed meanwhile
    problems: list[str] = field(default_factory=list)
    committed: list[tuple[str, Replacement]] = field(default_factory=list)

    def count(self, row: Rewritten) -> None:
        """Add what a unit read, wrote and found."""
        self.read_bytes += row.read_bytes
        self.written_bytes += row.written_bytes
        self.lost += bool(row.gone)
        if row.problem:
            self.problems.append(row.problem)

    def settled(
        self, folder: str, wanted: Sequence[Replacement], committed: Sequence[Replacement]
    ) -> None:
        """Add what of a log's outputs has become its past."""
        self.lost += len(wanted) - len(committed)
        for row in committed:
            self.inputs += len(row.inputs)
            self.outputs += len(row.outputs)
            self.committed.append((folder, row))

    def report(self, job: str, rows: list[dict[str, Any]], notes: list[str]) -> Report:
        """The report of a job that rewrote something."""
        facts = {
            "objects_replaced": self.inputs,
            "objects_written": self.outputs,
            "bytes_read": self.read_bytes,
            "bytes_written": self.written_bytes,
            "groups_lost_to_others": self.lost,
        }
        code = 1 if self.problems else 0
        return Report(job, facts, rows, [*notes, *self.problems], exit_code=code)


def packed(units: Sequence[U]) -> list[tuple[U, ...]]:
    """Small units together, so that each task is worth starting."""
    packs: list[list[U]] = []
    size = objects = 0
    for unit in units:
        count = len(unit.inputs)
        if not packs or size + unit.size > PACK_BYTES or objects + count > PACK_OBJECTS:
            packs.append([])
            size = objects = 0
        packs[-1].append(unit)
        size += unit.size
        objects += count
    return [tuple(pack) for pack in packs]


def waves(packs: Sequence[tuple[U, ...]], most_bytes: int) -> Iterator[list[tuple[U, ...]]]:
    """Packs that are run and committed together."""
    wave: list[tuple[U, ...]] = []
    size = 0
    for pack in packs:
        bytes_of_pack = sum(unit.size for unit in pack)
        if wave and size + bytes_of_pack > most_bytes:
            yield wave
            wave, size = [], 0
        wave.append(pack)
        size += bytes_of_pack
    if wave:
        yield wave


def in_waves(
    context: Context,
    units: Sequence[U],
    work: Callable[[U], R],
    settle: Callable[[list[R]], None],
    progress: Callable[[int, int], None],
) -> None:
    """Run the units, and settle the results of each wave before the next begins."""
    total = sum(unit.size for unit in units)
    done = 0
    stays = here_or_spark.may_run_here(context) and _is_small(units)
    at_once = 1 if stays else parallelism(context.spark)
    for wave in waves(packed(units), WAVE_BYTES * at_once):
        size = sum(unit.size for pack in wave for unit in pack)

        def step(ready: int, of: int, done: int = done, size: int = size) -> None:
            progress(done + size * ready // max(1, of), total)

        def do(pack: tuple[U, ...]) -> list[R]:
            return [work(unit) for unit in pack]

        if stays:
            answers = here_or_spark.run_here(wave, do, step)
        else:
            answers = run_units(context.spark, wave, do, progress=step)
        settle([row for pack in answers for row in pack])
        done += size


def _is_small(units: Sequence[Unit]) -> bool:
    """Whether this takes less time than starting a session."""
    objects = sum(len(unit.inputs) for unit in units)
    return sum(unit.size for unit in units) <= NEAR_BYTES and objects <= NEAR_OBJECTS


def rewrite(
    context: Context,
    bucket: Bucket,
    units: Sequence[U],
    work: Callable[[U], Rewritten],
    progress: Callable[[int, int], None],
    tally: Tally,
) -> None:
    """Run the units and commit what they wrote, adding to the tally."""

    def settle(rewritten: list[Rewritten]) -> None:
        for row in rewritten:
            tally.count(row)
        rows = sorted(rewritten, key=attrgetter("folder"))
        for folder, group in groupby(rows, key=attrgetter("folder")):
            wanted = [replacement for row in group for replacement in row.replacements]
            if wanted:
                tally.settled(folder, wanted, commit_replacements(bucket, folder, wanted))

    in_waves(context, units, work, settle, progress)


def parallelism(spark: Any) -> int:
    """Cores of the cluster, as far as Spark tells (Connect does not)."""
    context = getattr(spark, "sparkContext", None)
    return int(context.defaultParallelism) if context is not None else 4


class Also(NamedTuple):
    """A further change of the manifest, made in the same generation if all outputs are named."""

    change: Callable[[Manifest], Manifest]
    is_in: Callable[[Manifest], bool]


def commit_replacements(
    bucket: Bucket, folder: str, wanted: Sequence[Replacement], also: Also | None = None
) -> list[Replacement]:
    """Replace inputs by outputs in the manifest; return the replacements that were made.

    What does not fit any more (another job was faster) is left out. Its outputs are orphans, which
    a sweep deletes.
    """

    async def write(store: ObjectStore) -> list[Replacement]:
        for _ in range(_RACES):
            newest = await commits.read_newest(store, folder)
            fitting = [row for row in wanted if await _fits(store, folder, newest, row)]
            more = also if len(fitting) == len(wanted) else None
            if not fitting and (more is None or more.is_in(newest)):
                return []
            try:
                await _commit(bucket, store, folder, newest, fitting, more)
            except LostRace as lost:
                logger.info("commit_lost", folder=folder, reason=str(lost))
                continue
            return fitting
        return []

    return bucket.run(write)


async def _commit(
    bucket: Bucket,
    store: ObjectStore,
    folder: str,
    seen: Manifest,
    fitting: Sequence[Replacement],
    also: Also | None,
) -> None:
    names = {entry.name for row in fitting for entry in row.outputs}

    def change(old: Manifest) -> Manifest:
        if not all(manifest.replaces(old, row) for row in fitting):
            raise LostRace("the segments to be replaced are not listed any more")
        changed = manifest.replace(old, fitting)
        return changed if also is None else also.change(changed)

    def is_in(newer: Manifest) -> bool:
        return names <= newer.names() and (also is None or also.is_in(newer))

    await commits.commit(
        store,
        folder,
        seen,
        change,
        is_in=is_in,
        author="pipeline",
        clock=bucket.clock,
        dice=bucket.dice,
        outputs=sorted(names),
    )


async def _fits(store: ObjectStore, folder: str, newest: Manifest, row: Replacement) -> bool:
    """Rule 7, in this order: inputs listed, outputs not condemned, outputs there."""
    if not manifest.replaces(newest, row):
        return False
    condemned = {drop.name for drop in newest.dropped}
    for entry in row.outputs:
        if entry.name in condemned:
            return False
        key = f"{folder}/{entry.name}"
        try:
            await with_retries(store.read, key, 0, 1)
        except ObjectMissing:
            return False
    return True
