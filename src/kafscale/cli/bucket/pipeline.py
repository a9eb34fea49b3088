"""`kafscale pipeline JOB`: bulk work on topics, on Spark, straight on the bucket.

Here: the arguments that all jobs share, the progress line, the report. Next door: the jobs
(spark/jobs/), each imported only when it is asked for.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, Final, Protocol

from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.cli.terminal.output import print_columns, print_json, print_line

JOBS: Final[dict[str, str]] = {
    "run": "keep the tables that topics declare, and all logs, up to date until stopped",
    "status": "show how fresh each table is, what it lacks, and what happened last",
    "export": "write topics to Parquet, Delta or Iceberg tables, or bring those up to date",
    "stats": "report what topics hold, what they cost, and the lag of groups",
    "compact": "merge small objects; with --by-key keep the newest record of each key",
    "retain": "expire by time and size, rewrite mostly expired objects, delete unused ones",
    "audit": "check format and checksum of every object, and that no offset is missing",
    "convert": "write a topic with another compression, size or partition count to a new topic",
    "mirror": "copy topics of another Kafka cluster, with offsets and groups",
    "replay": "write the records of a lake table or of a topic to a topic",
}

# Which extra brings a library; the others come with `spark`.
_EXTRAS: Final = {
    "deltalake": "delta",
    "pyiceberg": "iceberg",
    "pyruhvro": "avro",
    "ptars": "protobuf",
    "google": "protobuf",
}


# Commands that are no single job: they leave no record of their own run.
_OF_THE_RUNNER: Final = ("run", "status")


class Job(Protocol):
    """What a job's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare what the job takes besides the common arguments."""
        ...

    def run(self, context: Any, args: argparse.Namespace) -> Any:
        """Do it and report."""
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the jobs; only the one that was asked for is imported."""
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    words = sys.argv[1:]
    for name, summary in JOBS.items():
        job = jobs.add_parser(
            name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}."
        )
        job.add_argument(
            "--store",
            required=True,
            metavar="URL",
            help="the store: file:///path, s3://bucket, gs://bucket or az://container",
        )
        job.add_argument(
            "--topic",
            action="append",
            default=[],
            metavar="T",
            help="a topic; may be repeated (default: every topic)",
        )
        job.add_argument(
            "--master",
            metavar="URL",
            help="Spark's master (default: local[*], or no Spark for little work)",
        )
        job.add_argument(
            "--conf",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a setting of Spark; may be repeated",
        )
        job.add_argument(
            "--dry-run", action="store_true", help="print the plan and its cost, change nothing"
        )
        job.add_argument("--json", action="store_true", help="print the report as JSON")
        if name in words:
            _module(name).add_arguments(job)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    module = _module(args.job)
    from kafscale.broker.operating import log_output
    from kafscale.cli.terminal.progress import ProgressLine
    from kafscale.spark.bucket import Bucket
    from kafscale.spark.errors import spark_errors_shortened
    from kafscale.spark.job import Context

    log_output.configure("warn", "text")  # the report alone is for standard output
    with ProgressLine() as line:
        context = Context(
            Bucket(args.store),
            tuple(args.topic),
            dry_run=args.dry_run,
            master=args.master,
            conf=pairs(args.conf),
            progress=line.update,
            quiet=not getattr(args, "debug", False),
        )
        try:
            with spark_errors_shortened():
                try:
                    report = _run(module, context, args)
                finally:
                    context.bucket.tell()
        except ImportError as missing:  # a library of one format, loaded when it is needed
            raise not_installed(missing) from missing
    if args.json:
        print_json(
            {
                "job": report.job,
                "dry_run": report.dry_run,
                **report.facts,
                "rows": report.rows,
                "notes": report.notes,
            }
        )
    else:
        _print(report)
    return int(report.exit_code)


def _run(module: Job, context: Any, args: argparse.Namespace) -> Any:
    """Run a job; what it was and how it ended stays on record in the bucket."""
    from kafscale.spark.run_records import RunRecord, recorded

    if args.job in _OF_THE_RUNNER or args.dry_run:
        return module.run(context, args)
    record = RunRecord(context.bucket, args.job, args.topic)
    return recorded(record, lambda: module.run(context, args))


def _module(name: str) -> Job:
    try:
        room = "runner" if name in _OF_THE_RUNNER else "jobs"
        module: Job = importlib.import_module(f"kafscale.spark.{room}.{name}")
    except ImportError as missing:
        raise not_installed(missing) from missing
    return module


def not_installed(missing: ImportError) -> Exception:
    """Give the error for a library that is not installed; any other ImportError stays."""
    name = (missing.name or "").partition(".")[0]
    if not name or name == "kafscale":
        return missing
    extra = _EXTRAS.get(name, "spark")
    return CommandError(
        f"{name} is not installed: `make setup` in a checkout, "
        f"elsewhere pip install 'kafscale[{extra}]'"
    )


def pairs(words: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE words."""
    for word in words:
        if "=" not in word:
            raise UsageError(f"--conf {word}: write KEY=VALUE")
    return dict(word.split("=", 1) for word in words)


def _print(report: Any) -> None:
    if report.rows:
        names = list(report.rows[0])
        lines = [[_text(row.get(name)) for name in names] for row in report.rows]
        print_columns(names, lines)
    if report.dry_run:
        print("plan only, nothing was changed:")
    for name, value in report.facts.items():
        print_line(f"{name.replace('_', ' ')}: {_text(value)}")
    for note in report.notes:
        print_line(note)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)
