"""`kafscale cluster`: a fleet on this machine, with a real etcd and a real S3 server.

Here: arguments and output. Next door: everything that runs (local/).
"""

import argparse
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.cli.terminal.output import print_columns, print_json
from kafscale.local.errors import LocalError
from kafscale.local.fleet_programs import MAX_BROKERS, MAX_ETCD
from kafscale.local.folder import ClusterStatus, Folder
from kafscale.local.supervisor import supervise
from kafscale.settings.loading import load
from kafscale.settings.sections import ConsoleSection
from kafscale.settings.sources import CONSOLE_VARIABLES
from kafscale.system import SystemClock, SystemDice

_STOP_WITHIN_S: Final = 60.0
_PAUSE_S: Final = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    up = verbs.add_parser("up", help="start a fleet and keep it running until it is stopped")
    up.add_argument(
        "--brokers",
        type=int,
        metavar="N",
        help="number of brokers; 0: only etcd and the S3 server (default: as last time, else 3)",
    )
    up.add_argument(
        "--etcd",
        type=int,
        metavar="N",
        help="number of etcd members (default: as last time, else 1)",
    )
    up.add_argument("--no-console", action="store_true", help="do not start the web console")
    how = up.add_mutually_exclusive_group()
    how.add_argument("--foreground", action="store_true", help="run until Ctrl-C (default)")
    how.add_argument(
        "--detach", action="store_true", help="return when the fleet answers; it runs on"
    )
    stop = verbs.add_parser("stop", help="stop a fleet that was started elsewhere")
    status = verbs.add_parser("status", help="show the processes and their addresses")
    status.add_argument("--json", action="store_true", help="print cluster.json")
    for verb in (up, stop, status):
        verb.add_argument(
            *("--data", "-d"),
            type=Path,
            default=Path("kafscale-cluster"),
            metavar="DIR",
            help="folder of the fleet (default: ./kafscale-cluster)",
        )


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    folder = Folder(args.data)
    try:
        match args.verb:
            case "up":
                _check_size("--brokers", args.brokers, 0, MAX_BROKERS)
                _check_size("--etcd", args.etcd, 1, MAX_ETCD)
                return _detach(folder, args) if args.detach else _up(folder, args)
            case "stop":
                return _stop(folder)
            case _:
                return _status(folder, as_json=args.json)
    except LocalError as problem:
        raise CommandError(str(problem)) from problem


def _check_size(flag: str, size: int | None, least: int, most: int) -> None:
    if size is not None and not least <= size <= most:
        raise UsageError(f"{flag}: expected {least} to {most}, found {size}")


def _up(folder: Folder, args: argparse.Namespace) -> int:
    console = None if args.no_console else _console()
    supervise(folder, args.brokers, args.etcd, SystemClock(), SystemDice(), _say, console)
    return 0


def _console() -> ConsoleSection | None:
    """The settings of the console, by its variables alone; None: it is switched off."""
    given = {name: raw for name, raw in os.environ.items() if name.startswith(CONSOLE_VARIABLES)}
    console = load(None, given, {}).console
    return console if console.enabled else None


def _say(line: str) -> None:
    try:
        print(line, flush=True)
    except BrokenPipeError:
        # The reader of this output has gone; the fleet runs on.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of this process
    except OSError:
        pass  # a full disk: the fleet runs on, and prints again when there is room


def _detach(folder: Folder, args: argparse.Namespace) -> int:
    """Start the supervisor in a session of its own and wait until everything answers."""
    if (holder := folder.supervisor()) is not None:
        raise CommandError(f"a fleet runs in {folder.path} already (supervisor {holder})")
    command = [sys.executable, "-m", "kafscale.cli.main", "cluster", "up"]
    command += ["--data", str(folder.path)]
    for flag, value in (("--brokers", args.brokers), ("--etcd", args.etcd)):
        command += [flag, str(value)] if value is not None else []
    command += ["--no-console"] if args.no_console else []
    log = folder.log("supervisor")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        while (cluster := folder.cluster()) is None or cluster.supervisor != started.pid:
            if started.poll() is not None:
                last = log.read_text(errors="replace").rstrip("\n").rpartition("\n")[2]
                raise CommandError(last.removeprefix("kafscale: "))
            time.sleep(_PAUSE_S)
    except KeyboardInterrupt:
        started.terminate()
        started.wait()
        raise
    print(f"bootstrap  {cluster.bootstrap or 'none: there are no brokers'}")
    return 0


def _stop(folder: Folder) -> int:
    holder = folder.supervisor()
    if holder is None:
        folder.unpublish()  # a killed supervisor could not do this
        raise CommandError(f"no fleet runs in {folder.path}")
    handle = os.pidfd_open(holder)  # readable also at the end of a process that is not our child
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], _STOP_WITHIN_S)[0]:
            raise CommandError(f"supervisor {holder} does not stop: see {folder.logs}")
    finally:
        os.close(handle)
    print(f"stopped; its data is kept in {folder.path}")
    return 0


def _status(folder: Folder, as_json: bool) -> int:
    holder = folder.supervisor()
    if holder is None:
        raise CommandError(f"no fleet runs in {folder.path}")
    cluster = folder.cluster()
    if cluster is None:
        raise CommandError(f"the fleet in {folder.path} is starting or stopping")
    if as_json:
        print_json(msgspec.to_builtins(cluster))
        return 0
    rows = [
        *((f"broker-{one.id}", one) for one in cluster.brokers),
        *((f"etcd-{number}", one) for number, one in enumerate(cluster.etcd.members, start=1)),
        ("s3", cluster.s3),
    ]
    print_columns(
        ("process", "state", "address", "pid", "restarts"),
        [(name, one.state, f"127.0.0.1:{one.port}", one.pid, one.restarts) for name, one in rows],
    )
    _print_hints(cluster)
    return 0


def _print_hints(cluster: ClusterStatus) -> None:
    print(
        f"\nbootstrap  {cluster.bootstrap}\n"
        f"bucket     s3://{cluster.s3.bucket} at {cluster.s3.endpoint}\n"
        f"for tools  . {shlex.quote(cluster.s3.credentials)}"
    )
