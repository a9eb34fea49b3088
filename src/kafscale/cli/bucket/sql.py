"""`kafscale sql "select ... from topic.orders"`: SQL over topics, straight on the bucket.

Here: the arguments, and rows as columns, JSON lines or CSV. Next door: what `topic.orders` is
(spark/source/sql.py).
"""

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from kafscale.cli.bucket.pipeline import not_installed, pairs
from kafscale.cli.terminal.errors import UsageError
from kafscale.cli.terminal.output import print_columns, print_json
from kafscale.model.printable import printable
from kafscale.spark.jobs.arguments import add_value_arguments

FORMATS: Final = ("columns", "json", "csv")
SHOWN: Final = 1000  # rows that are printed as columns without --rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "query", help="a query; topics are tables: select * from topic.orders limit 3"
    )
    parser.add_argument(
        "--store",
        required=True,
        metavar="URL",
        help="the store: file:///path, s3://bucket, gs://bucket or az://container",
    )
    parser.add_argument("--output", choices=FORMATS, default="columns")
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help=f"print at most N rows (default: {SHOWN} as columns, else all)",
    )
    add_value_arguments(parser, None)
    parser.add_argument(
        "--log-only",
        action="store_true",
        help="read topics from the log alone, also where they have a table",
    )
    parser.add_argument(
        "--as-of", default="", metavar="NAME", help="read this snapshot (see kafscale snapshots)"
    )
    parser.add_argument(
        "--only-topics",
        action="store_true",
        help="refuse all but one SELECT over topics: no files, no Java methods, no programs",
    )
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="Spark's master, or sc://host:15002 for Spark Connect",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Run the query and print what it gives."""
    if args.rows is not None and args.rows < 0:
        raise UsageError(f"--rows: expected 0 or more, found {args.rows}")
    try:
        from kafscale.spark.errors import spark_errors_shortened
        from kafscale.spark.history.queries import register_topics
        from kafscale.spark.session import open_session, quiet_jvm
        from kafscale.spark.source.sql import run_query
    except ImportError as missing:
        raise not_installed(missing) from missing

    # Rows come with times of this process's zone; queries speak of UTC.
    os.environ["TZ"] = "UTC"
    time.tzset()
    if sys.stderr.isatty():
        print("Spark starts, which takes some seconds ...", file=sys.stderr)
    with nullcontext() if getattr(args, "debug", False) else quiet_jvm():
        spark = open_session("kafscale sql", args.master, pairs(args.conf))
    topics = register_topics(
        spark,
        args.store,
        (),
        use_tables=not args.log_only,
        value_format="string",
        **_value_options(args),
    )
    limit = args.rows if args.rows is not None else SHOWN if args.output == "columns" else None
    with spark_errors_shortened():
        names, rows = run_query(
            spark,
            topics,
            args.query,
            None if limit is None else limit + 1,
            is_closed=args.only_topics,
        )
        _print(args.output, names, rows, limit)
    return 0


def _value_options(args: argparse.Namespace) -> dict[str, str]:
    """Translate the arguments to options of the source; a schema may be the name of a file."""
    schema = args.value_schema
    is_file = bool(schema) and len(schema) < 1000 and Path(schema).is_file()
    if is_file and args.value_format == "json":
        schema, is_file = Path(schema).read_text("utf-8").strip(), False
    given = {
        "valueFormat": args.value_format or "",
        "valueSchemaFile" if is_file else "valueSchema": schema,
        "valueMessage": args.value_message,
        "valueFraming": "" if args.value_framing == "none" else args.value_framing,
        "valueSubject": args.value_subject,
        "schemaRegistry": args.schema_registry,
        "asOf": args.as_of,
    }
    return {name: value for name, value in given.items() if value}


def _print(output: str, names: Sequence[str], rows: Iterator[list[Any]], limit: int | None) -> None:
    if output == "columns":
        found = list(rows)
        print_columns(names, [[_cell(value) for value in row] for row in found[:limit]])
        if limit is not None and len(found) > limit:
            print(f"the first {limit} rows; --rows shows more", file=sys.stderr)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if output == "csv":
        writer.writerow(names)
    for number, row in enumerate(rows):
        if limit is not None and number >= limit:
            return
        if output == "csv":
            writer.writerow(["" if value is None else _text(value) for value in row])
        else:
            print_json({name: _plain(value) for name, value in zip(names, row, strict=True)})


def _plain(value: Any) -> Any:
    """A value as JSON has it; bytes as text where they are text, else in base64."""
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return bytes(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds") + "Z"
    if hasattr(value, "asDict"):
        return {name: _plain(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Decimal | date) else value


def _text(value: Any) -> Any:
    """A value in CSV: as it is, unless a terminal would obey it."""
    cell = _cell(value)
    return printable(cell) if isinstance(cell, str) and sys.stdout.isatty() else cell


def _cell(value: Any) -> Any:
    plain = _plain(value)
    if isinstance(plain, bytes):
        return plain.hex()
    if isinstance(plain, dict | list):
        import msgspec

        return msgspec.json.encode(plain).decode()
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return plain
