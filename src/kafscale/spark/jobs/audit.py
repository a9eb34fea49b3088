"""`audit`: objects against their format, checksums, index, manifest and neighbours.

Here: the command, the plan, the findings as a table. Next door: one object
(checking/checks.py), one log (checking/log_checks.py). The job reads only; with --repair it writes
indexes again, which follow from the data. It never changes data.
"""

import argparse
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kafscale.log.formats import index, keys
from kafscale.log.formats.places import LanePlace
from kafscale.log.protocol import survey
from kafscale.log.protocol.survey import LogSurvey
from kafscale.model.errors import CorruptObject, InvalidRequest, ObjectMissing
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.checking import checks, log_checks
from kafscale.spark.jobs.checking.checks import AuditedObject, Checked
from kafscale.spark.jobs.checking.contents import AuditFinding
from kafscale.spark.jobs.compaction.commit_waves import in_waves
from kafscale.spark.jobs.logs import object_io, selection
from kafscale.spark.jobs.logs.removal import lanes_of
from kafscale.spark.jobs.logs.selection import ChosenLog
from kafscale.spark.kernels.finders import position_finder
from kafscale.spark.kernels.positions import PositionFinder

_MOST_ROWS: Final = 10_000
_DAY_MS: Final = 86_400_000
_UNIT_BYTES: Final = 256 << 20  # a third of a second's work: a task by itself costs 40 ms


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the job takes."""
    parser.add_argument(
        "--repair",
        action="store_true",
        help="write missing and wrong indexes again; data is never changed",
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        metavar="S",
        help="open only this share of the objects, such as 0.1, other ones each day (1: all)",
    )


def run(context: Context, args: argparse.Namespace) -> Report:
    """Do what the command line says."""
    return audit(context, repair=args.repair, share=args.share)


class Batch(NamedTuple):
    """Objects that one task looks at."""

    bucket: Bucket
    folder: str
    inputs: tuple[AuditedObject, ...]
    repair: bool

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return sum(target.size for target in self.inputs)


class LogAudited(NamedTuple):
    """A log and what is known of it before any segment is opened."""

    whose: ChosenLog
    view: LogSurvey
    targets: list[AuditedObject]
    findings: list[AuditFinding]


def audit(context: Context, *, repair: bool = False, share: float = 1.0) -> Report:
    """Check every object of the chosen topics; exit code 1 if anything is wrong.

    With a share, what logs and manifests say is checked as ever, and that share of the objects is
    opened: by the end of 1 / share days each of them, if the job runs every day.
    """
    bucket = context.bucket
    turns = turns_of(share)
    turn = bucket.clock.now_ms() // _DAY_MS % turns
    audits: list[LogAudited] = []
    findings: list[AuditFinding] = []
    rows = selection.chosen_logs(context)
    for number, whose in enumerate(rows):
        context.progress("listing", number, len(rows), "")
        try:
            looked = _look(bucket, whose)
            mine = [one for one in looked.targets if turn_of(one.key, turns) == turn]
            audits.append(looked._replace(targets=mine))
        except CorruptObject as bad:
            findings.append(AuditFinding(whose.folder, "manifest", "error", str(bad)))
    findings += claimed_twice(bucket.topics())
    units = [unit for row in audits for unit in _batches(bucket, row, repair=repair)]
    if context.dry_run:
        return _dry_run(audits, units, findings)
    checked: list[Checked] = []

    def settle(results: list[list[Checked]]) -> None:
        checked.extend(checked_object for some in results for checked_object in some)

    if units:
        progress = selection.in_bytes(context, "checking")
        in_waves(context, units, check_unit, settle, progress)
    by_key = {checked_object.key: checked_object for checked_object in checked}
    for row in audits:
        findings += row.findings
        findings += log_checks.check_chain(row.view, by_key)
    findings += [finding for checked_object in checked for finding in checked_object.findings]
    report = _report(audits, checked, _still_true(bucket, audits, findings))
    if turns > 1:
        report.facts["share"] = f"1 of {turns}"
    return report


def turns_of(share: float) -> int:
    """How many audits with this share it takes to open every object."""
    if not 0 < share <= 1:
        raise InvalidRequest(f"--share: expected more than 0 and up to 1, found {share:g}")
    return max(1, math.ceil(1 / share - 1e-9))


def turn_of(key: str, turns: int) -> int:
    """In which of them an object is opened."""
    return zlib.crc32(key.encode()) % turns


def claimed_twice(topics: Iterable[TopicDescriptor]) -> Iterator[AuditFinding]:
    """A lane belongs to one topic and to no later one: two would read each other's records."""
    owners: dict[LanePlace, str] = {}
    for topic in topics:
        for place in sorted({*lanes_of(topic), *lanes_of(topic.after_move())}):
            other = owners.setdefault(place, topic.name)
            if other != topic.name:
                text = f"lane {place.lane} is {topic.name}'s and {other}'s"
                yield AuditFinding(place.folder, "lanes", "error", text)


def _look(bucket: Bucket, whose: ChosenLog) -> LogAudited:
    folder = whose.folder

    async def look(store: ObjectStore) -> tuple[LogSurvey, dict[str, int]]:
        while True:
            try:
                view = await survey.survey_log(store, folder, whose.number)
            except ObjectMissing:
                continue  # the manifest was superseded and swept since it was listed
            return view, {row.key: row.size for row in await store.find(folder)}

    view, sizes = bucket.run(look)
    interval = whose.settings.index_interval_bytes
    targets = [
        AuditedObject(
            piece.key,
            sizes[piece.key],
            piece.base,
            piece.end,
            piece.content_id,
            piece.spans if piece.entry is not None else None,
            piece.kind == "flush",
            piece.entry is not None and piece.entry.has_index,
            keys.index_of(piece.key) in sizes,
            interval,
        )
        for piece in view.pieces
        if piece.key in sizes
    ]
    return LogAudited(whose, view, targets, list(log_checks.check_log(view, sizes)))


def _batches(bucket: Bucket, row: LogAudited, *, repair: bool) -> list[Batch]:
    """A unit for each large object; small objects share units."""
    packs: list[list[AuditedObject]] = []
    size = 0
    for target in row.targets:
        if not packs or size + target.size > _UNIT_BYTES or len(packs[-1]) >= 2048:
            packs.append([])
            size = 0
        packs[-1].append(target)
        size += target.size
    return [Batch(bucket, row.view.folder, tuple(pack), repair) for pack in packs]


def check_unit(unit: Batch) -> list[Checked]:
    """Check the objects of one unit."""
    finder = position_finder()
    small = [target for target in unit.inputs if target.size <= checks.WINDOW_BYTES]
    large = [target for target in unit.inputs if target.size > checks.WINDOW_BYTES]
    results = [_check(unit, target, finder, None) for target in large]
    bodies = object_io.present(unit.bucket, [(target.key, target.size) for target in small])
    results += [
        _check(unit, target, finder, body) for target, body in zip(small, bodies, strict=True)
    ]
    return results


def _check(
    unit: Batch,
    target: AuditedObject,
    finder: PositionFinder,
    body: memoryview | ObjectMissing | None,
) -> Checked:
    bucket = unit.bucket

    def read(start: int, length: int) -> memoryview:
        if isinstance(body, ObjectMissing):
            raise body
        if body is not None:
            return body[start : start + length]
        return bucket.run(
            lambda store: object_io.with_retries(lambda: store.read(target.key, start, length))
        )

    def read_index() -> memoryview:
        [result] = object_io.read_all(bucket, [keys.index_of(target.key)])
        return result

    try:
        result = checks.check(target, read, read_index, finder)
    except ObjectMissing as gone:
        text = f"gone since it was listed: {gone}"
        return Checked(target.key, 0, 0, [AuditFinding(target.key, "missing", "error", text)])
    if unit.repair and result.rebuilt is not None:
        return _repaired(bucket, result)
    return result._replace(rebuilt=None)


def _repaired(bucket: Bucket, checked: Checked) -> Checked:
    """Write the index again. It is a hint: readers do without it between the two steps."""
    assert checked.rebuilt is not None
    key = keys.index_of(checked.key)
    bucket.run(lambda store: store.delete([key]))
    object_io.put_unique(bucket, key, [index.encode(checked.rebuilt)])
    findings = [
        finding._replace(severity="repaired", text=f"{finding.text}; written anew")
        if finding.object == key
        else finding
        for finding in checked.findings
    ]
    return checked._replace(findings=findings, rebuilt=None)


def _still_true(
    bucket: Bucket, audits: Sequence[LogAudited], findings: list[AuditFinding]
) -> list[AuditFinding]:
    """Leave out objects that were replaced and deleted meanwhile: no newer manifest names them."""
    doubtful = {finding.object for finding in findings if finding.kind == "missing"}
    if not doubtful:
        return findings
    named: set[str] = set()
    for row in audits:
        if any(key.startswith(f"{row.view.folder}/") for key in doubtful):
            view = _look(bucket, row.whose).view
            named |= {piece.key for piece in view.pieces}
    return [finding for finding in findings if finding.kind != "missing" or finding.object in named]


def _report(
    audits: Sequence[LogAudited], checked: Sequence[Checked], findings: list[AuditFinding]
) -> Report:
    order = {"error": 0, "warning": 1, "repaired": 2, "info": 3}
    findings = sorted(findings, key=lambda finding: (order[finding.severity], finding.object))
    counts = {name: sum(finding.severity == name for finding in findings) for name in order}
    facts = {
        "topics": len(_topics(audits)),
        "logs": len(audits),
        "objects": len(checked),
        "bytes": sum(row.size for row in checked),
        "records": sum(row.records for row in checked),
        "errors": counts["error"],
        "warnings": counts["warning"],
        "repaired": counts["repaired"],
    }
    rows: list[dict[str, Any]] = [finding._asdict() for finding in findings[:_MOST_ROWS]]
    notes = []
    if len(findings) > _MOST_ROWS:
        notes.append(f"and {len(findings) - _MOST_ROWS} further findings")
    return Report("audit", facts, rows, notes, exit_code=1 if counts["error"] else 0)


def _topics(audits: Sequence[LogAudited]) -> set[str]:
    """The chosen topics that have a log."""
    own = {row.whose.topic.name for row in audits if row.whose.topic is not None}
    return own | {topic.name for row in audits for topic in row.whose.lanes.values()}


def _dry_run(
    audits: Sequence[LogAudited], units: Sequence[Batch], findings: Sequence[AuditFinding]
) -> Report:
    rows = [
        {
            "topic": row.whose.name,
            "log": row.view.number,
            "objects": len(row.targets),
            "bytes": sum(target.size for target in row.targets),
        }
        for row in audits
    ]
    targets = [target for row in audits for target in row.targets]
    requests = sum(2 + target.size // checks.WINDOW_BYTES for target in targets)
    facts = {
        "objects_to_read": len(targets),
        "bytes_to_read": sum(target.size for target in targets),
        "requests": requests + 6 * len(audits),
        "tasks": len(units),
    }
    notes = [f"{finding.object}: {finding.text}" for finding in findings]
    return Report("audit", facts, rows, notes, dry_run=True)
