"""`kafscale pipeline run`: the command.

Here: the arguments, the one session that all work shares, the metrics page. Next door: the loop
(runner.py).
"""

import argparse
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from pyspark.sql import SparkSession

from kafscale.model.errors import InvalidRequest
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.audit import turns_of
from kafscale.spark.jobs.stopping import stoppable
from kafscale.spark.runner import planner
from kafscale.spark.runner.declared import Allowances
from kafscale.spark.runner.membership import LEASE_MS
from kafscale.spark.runner.planner import Rhythm
from kafscale.spark.runner.runner import AUDIT_SHARE, LOOK_S, Runner, RunnerOptions
from kafscale.spark.runner.series import MetricsPage, RunnerSeries

# Exports beside a long compaction get their share of the cores.
SESSION_CONF: Final[Mapping[str, str]] = {"spark.scheduler.mode": "FAIR"}
_NEVER: Final = ("never", "0")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the runner takes."""
    parser.add_argument(
        "--once", action="store_true", help="do what is due now and end, instead of going on"
    )
    parser.add_argument(
        "--parallel", type=int, default=4, metavar="N", help="pieces of work at once (4)"
    )
    parser.add_argument(
        "--look",
        type=float,
        default=LOOK_S,
        metavar="S",
        help="read the topics' settings every S seconds (30)",
    )
    parser.add_argument(
        "--lease",
        type=float,
        default=LEASE_MS / 1000,
        metavar="S",
        help="a runner that gives no sign for S seconds counts as dead; the same for all (30)",
    )
    parser.add_argument(
        "--allow-location",
        action="append",
        default=[],
        metavar="URL",
        help="topics may have tables in this folder; may be repeated (default: in the bucket only)",
    )
    parser.add_argument(
        "--allow-registry",
        action="append",
        default=[],
        metavar="URL",
        help="topics may name this schema registry; may be repeated",
    )
    parser.add_argument(
        "--catalog",
        default="",
        metavar="URI",
        help="of Iceberg tables (default: none, the table's own folder)",
    )
    for kind in planner.KINDS[1:]:
        parser.add_argument(
            f"--{kind}-every",
            default="",
            metavar="TIME",
            help=f"how often: 30m, 6h, 7d, or never (default {_usual(kind)})",
        )
    parser.add_argument(
        "--audit-share",
        type=float,
        default=AUDIT_SHARE,
        metavar="S",
        help="of the objects that an audit opens, other ones each day (0.1); 1: all",
    )
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="serve /metrics on 127.0.0.1"
    )
    parser.add_argument("--metrics-host", default="127.0.0.1", metavar="HOST")


def run(context: Context, args: argparse.Namespace) -> Report:
    """Run until stopped."""
    if args.parallel < 1:
        raise InvalidRequest(f"--parallel: expected 1 or more, found {args.parallel}")
    if args.lease < 1:
        raise InvalidRequest(f"--lease: expected 1 or more, found {args.lease}")
    turns_of(args.audit_share)
    options = RunnerOptions(
        Allowances(
            tuple(args.allow_location),
            tuple(url.rstrip("/") for url in args.allow_registry),
            args.catalog,
        ),
        rhythm_of(
            {kind: vars(args)[f"{kind.replace('-', '_')}_every"] for kind in planner.KINDS[1:]}
        ),
        args.parallel,
        args.look,
        args.once,
        round(args.lease * 1000),
        args.audit_share,
    )
    if context.dry_run:
        return plan_of(context, options)
    series = RunnerSeries(context.bucket.clock)
    page = None
    if args.metrics_port is not None:
        page = MetricsPage(series.registry, args.metrics_host, args.metrics_port)
    runner = Runner(shared(context), options, series)
    try:
        with stoppable() as stop:
            runner.run(stop)
    finally:
        if page is not None:
            page.close()
    facts = {"runner": runner.name, "work_done": runner.done, "work_failed": runner.failed}
    return Report("run", facts, exit_code=1 if options.once and runner.failed else 0)


def plan_of(context: Context, options: RunnerOptions) -> Report:
    """What the topics ask for, and how often."""
    works = planner.works_of(context.chosen(), options.rhythm)
    rows = [
        {
            "kind": work.kind,
            "subject": work.subject,
            "every_s": work.every_ms / 1000,
            "priority": work.priority,
        }
        for work in works
    ]
    return Report("run", {"pieces_of_work": len(works)}, rows, dry_run=True)


def rhythm_of(given: Mapping[str, str]) -> Rhythm:
    """The usual rhythm with what the command line says of it."""
    every_ms = dict(Rhythm().every_ms)
    for kind, text in given.items():
        if text in _NEVER:
            every_ms[kind] = 0
        elif text:
            every_ms[kind] = _milliseconds(f"--{kind}-every", text)
    return Rhythm(every_ms)


def _milliseconds(name: str, text: str) -> int:
    units = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    number, unit = text[:-1], text[-1:]
    if unit not in units or not number.isdecimal() or int(number) == 0 or len(number) > 9:
        raise InvalidRequest(f"{name}: expected something like 30m, 6h or never, found {text!r}")
    return int(number) * units[unit]


def _usual(kind: str) -> str:
    hours = Rhythm().every_ms[kind] // 3_600_000
    return f"{hours // 24}d" if hours % 24 == 0 else f"{hours}h"


class SharedSession:
    """One session for all threads, started when work first needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    def get(self, start: Context) -> SparkSession:
        """The session; the first to ask starts it."""
        with self._lock:
            if self._session is None:
                self._session = Context(
                    start.bucket,
                    master=start.master,
                    conf={**SESSION_CONF, **start.conf},
                    session=start.session,
                    quiet=start.quiet,
                ).spark
            return self._session


@dataclass
class SharedContext(Context):
    """A context whose copies have one session together."""

    sessions: SharedSession = field(default_factory=SharedSession)

    @property
    def spark(self) -> SparkSession:
        """The session of all copies."""
        return self.sessions.get(self)


def shared(context: Context) -> SharedContext:
    """The same context with a session that copies share."""
    return SharedContext(**{one.name: getattr(context, one.name) for one in fields(Context)})
