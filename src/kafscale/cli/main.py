"""The `kafscale` command: find the subcommand, run it, print an error as one line.

Here: the list of commands and the only place where exit codes are decided.
Next door: one module per command (serving/, console/, brokers/, bucket/), imported only when it is
the one that was asked for.
"""

import argparse
import atexit
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn, Protocol

from kafscale import __version__
from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.model.printable import printable

COMMANDS: Final[dict[str, str]] = {
    "serve": "run a broker",
    "console": "run the web console for brokers that run already",
    "brokers": "list the brokers of a fleet",
    "topics": "create, list, describe, alter, trim and delete topics",
    "configs": "describe and alter the settings of topics",
    "users": "create, list and delete users who log in by SCRAM",
    "groups": "list, describe and delete consumer groups, reset-offsets, delete-offsets",
    "transactions": "list and describe transactional ids",
    "roles": "grant, revoke and list the roles admin, producer and consumer",
    "produce": "write lines to a topic",
    "consume": "read a topic",
    "segments": "list, inspect and verify the objects of a topic in the bucket",
    "snapshots": "take, list and release snapshots of topics, to read them later",
    "pipeline": "run a bulk job on topics with Spark, without a broker",
    "sql": "query topics with SQL, without a broker",
    "catalog": "serve the Iceberg tables of topics to engines that ask a REST catalog",
    "cluster": "run a fleet on this machine: brokers, etcd and an S3 server",
    "operator": "run clusters on Kubernetes; print what installs the operator",
    "proxy": "show more partitions than an Apache Kafka behind it has",
    "demo": "show the whole way of a record: broker, orders, table, SQL, report",
    "cost": "show what each topic costs, by requests sent and bytes stored",
    "doctor": "check the configuration, the ports and the stores of a broker",
    "recover": "rebuild a lost metadata store from the bucket",
}
_ROOMS: Final[dict[str, tuple[str, ...]]] = {
    "serving": ("serve", "cluster", "operator", "proxy", "demo", "doctor", "recover"),
    "console": ("console",),
    "brokers": ("brokers", "topics", "configs", "transactions", "cost"),
    "brokers.access": ("users", "roles"),
    "brokers.groups": ("groups",),
    "brokers.records": ("produce", "consume"),
    "bucket": ("segments", "snapshots", "pipeline", "sql", "catalog"),
}


class Command(Protocol):
    """What a command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare what the command takes."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it and give the exit code."""
        ...


class Parser(argparse.ArgumentParser):
    """argparse, except that a wrong argument gives one line and not a page."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; never raises, save for --help and --version, which exit by themselves."""
    if argv is not None:
        return _code_of(list(argv))
    ending = _Ending()
    atexit.register(ending.end)  # the first one that is registered is the last one that is called
    ending.code = _code_of(sys.argv[1:])
    return ending.code


class _Ending:
    """Ends the process with the command's own exit code, whatever its libraries do at exit.

    A thread of `deltalake` that wants Python's lock while Python ends is killed by Python, and
    takes the process along (`terminate called without an active exception`, code 134): after the
    commit, and after all that the command has printed.
    """

    def __init__(self) -> None:
        self.code: int | None = None

    def end(self) -> None:
        if self.code is not None and "deltalake" in sys.modules:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):  # the reader has gone; `main` has said so
                    stream.flush()
            os._exit(self.code)


def _code_of(words: list[str]) -> int:
    try:
        code = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as a shell reports it
    except BrokenPipeError:
        _discard_stdout()
        return 141  # 128 + SIGPIPE: the reader of our output has closed it
    except Exception as bad:
        if "--debug" in words:
            traceback.print_exc()
        print(f"kafscale: {_one_line(bad)}", file=sys.stderr)
        return _exit_code(bad)
    return code


def _import_structlog() -> None:
    """Import structlog as if rich were not installed.

    structlog imports rich where it finds it, for coloured tracebacks: a tenth of a broker's start.
    """
    if "structlog" not in sys.modules and "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]
        try:
            importlib.import_module("structlog")
        finally:
            del sys.modules["rich"]


def _run(words: list[str]) -> int:
    chosen = next((word for word in words if word in COMMANDS), None)
    parser = Parser(prog="kafscale", description="Kafka topics in a bucket.")
    parser.add_argument("--version", action="version", version=f"kafscale {__version__}")
    _add_debug(parser)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    module: Command | None = None
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}."
        )
        _add_debug(subparser)
        if name == chosen:
            # The other commands and their libraries are not loaded: `--help` stays fast.
            _import_structlog()
            room = next(room for room, names in _ROOMS.items() if name in names)
            module = importlib.import_module(f"kafscale.cli.{room}.{name}")
            module.add_arguments(subparser)
    args = parser.parse_args(words)
    assert module is not None, "argparse requires a command"
    return module.run(args)


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show where an error came from",
    )


def _exit_code(bad: Exception) -> int:
    from kafscale.admin.errors import InvalidArgument
    from kafscale.settings.values import ConfigError

    if isinstance(bad, CommandError):
        return bad.exit_code
    return 2 if isinstance(bad, ConfigError | InvalidArgument) else 1


def _one_line(bad: Exception) -> str:
    from kafscale.admin.errors import AdminError
    from kafscale.model.errors import KafscaleError
    from kafscale.settings.values import ConfigError

    if isinstance(bad, OSError) and bad.strerror:
        text = f"{bad.filename}: {bad.strerror}" if bad.filename else bad.strerror
    elif isinstance(bad, CommandError | AdminError | ConfigError | KafscaleError):
        text = str(bad) or type(bad).__name__
    else:
        text = f"unexpected {type(bad).__name__}: {bad} (--debug shows where)"
    if getattr(bad, "keeps_lines", False):  # Spark points at a place of a query below it
        return "\n".join(printable(line.rstrip()) for line in text.strip().splitlines())
    return printable(" ".join(text.split()))


def _discard_stdout() -> None:
    """Point stdout at nothing: else Python reports the broken pipe again while it exits."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
