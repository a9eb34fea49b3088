"""This broker and Apache Kafka, same client, same machine, taking turns.

    python -m benchmarks.compare [--quick] [--only PATTERN] [--runs N] [--json FILE]
                                 [--python PATH]

In this room: the command line, the turns, the heading.
Next door: the workloads (workloads.py), groups (groups.py), the table (report.py).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import psutil

from benchmarks import clients, groups, old_formats, opening, raw, report
from benchmarks.run import hide_log_lines, show_progress
from benchmarks.workloads import FULL, LATENCY, QUICK, Figure, Life, Scale, latency_figures
from tests.support import apache_kafka
from tests.support.broker import KafscaleProcess
from tests.support.maven import ROOT, Unavailable
from tests.support.process import BrokerProcess

MEMORY = Path("/dev/shm")


def main() -> int:
    options = _options()
    env = dict(pair.split("=", 1) for pair in options.env)
    makers: list[Callable[[Path | None], BrokerProcess]] = []
    if not options.no_ours:
        makers.append(lambda folder: KafscaleProcess(folder, env, python=options.python))
    if not options.no_kafka and _kafka_can_be_had():
        makers.append(apache_kafka.ApacheKafka)
    hide_log_lines()
    heading = _heading(options)
    print(heading, end="\n\n", flush=True)

    runs: list[tuple[str, Figure]] = []
    try:
        _measure(options, makers, runs)
    finally:  # a part that fails costs no figure of the other parts
        show_progress("")
        found = report.rows(runs)
        print(report.table(found))
        if options.json:
            _write_json(options.json, heading, runs, found)
    return 0


def _measure(
    options: argparse.Namespace,
    makers: Sequence[Callable[[Path | None], BrokerProcess]],
    runs: list[tuple[str, Figure]],
) -> None:
    """Add every figure to `runs` as soon as it is there."""
    scale = QUICK if options.quick else FULL
    # First of all: the rows below create and remove many files, and some file systems are slow to
    # create more for minutes after that.
    for _ in range(options.runs if _wanted(LATENCY, options.only) else 0):
        runs += _latencies(makers, scale)
    for turn in range(options.runs if _lives_are_wanted(options.only) else 0):
        for make in makers:
            _touch_memory(scale)
            broker = make(None)
            for figure in Life(broker, scale, lambda name: _wanted(name, options.only)).figures():
                runs.append((broker.label, figure))
                show_progress(f"run {turn + 1}, {broker.label}: {figure.workload}")
    if not options.no_ours and _wanted("opening", options.only):
        show_progress("opening a log with a long history")
        runs.append((KafscaleProcess.label, opening.figure(5_000 if options.quick else 100_000)))
    if not options.no_ours and _wanted(old_formats.NAME, options.only):
        for figure in old_formats.figures(50_000 if options.quick else 500_000):
            runs.append((KafscaleProcess.label, figure))
            show_progress(figure.workload)
    for make in makers * options.runs if _wanted("groups", options.only) else []:
        show_progress("many members of many groups")
        crowd = groups.QUICK if options.quick else groups.FULL
        broker = make(None)
        runs += [(broker.label, one) for one in groups.figures(broker, crowd)]


def _latencies(
    makers: Sequence[Callable[[Path | None], BrokerProcess]], scale: Scale
) -> list[tuple[str, Figure]]:
    """One record in flight, with the data on files, and on memory where there is such a folder."""
    found = []
    for where, root in (("files", None), ("memory", MEMORY)):
        for make in makers if root is None or root.is_dir() else ():
            with tempfile.TemporaryDirectory(prefix="latency-", dir=root) as folder:
                broker = make(Path(folder))
                show_progress(f"{broker.label}: {LATENCY}, {where}")
                found += [(broker.label, one) for one in latency_figures(broker, scale, where)]
    return found


def _lives_are_wanted(pattern: str | None) -> bool:
    """Whether a pattern names more than what is measured outside of a broker's long life."""
    return pattern not in ("latency", "groups", "opening", old_formats.NAME)


def _touch_memory(scale: Scale) -> None:
    """Write and remove as much as a broker will write, so that no broker runs on cold memory.

    A virtual machine's free memory may have gone back to its host. The program that touches it
    first pays (measured here: 2.6 CPU-seconds per GB written, 0.3 the second time), and that would
    be the broker that comes first.
    """
    block = memoryview(bytes(range(256)) * 4096)
    with tempfile.TemporaryFile(buffering=0) as scratch:
        for _ in range(scale.touched_bytes // len(block)):
            scratch.write(block)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few hundred MB, one run")
    parser.add_argument("--only", metavar="PATTERN", help="workloads with this in their name")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="turns per broker (3)")
    parser.add_argument(
        "--python",
        metavar="PATH",
        default=sys.executable,
        help="the interpreter of our broker, of this one's version: an optimised build, say",
    )
    parser.add_argument("--no-kafka", action="store_true", help="this broker alone")
    parser.add_argument("--no-ours", action="store_true", help="Apache Kafka alone")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures as JSON too")
    return parser.parse_args()


def _wanted(name: str, pattern: str | None) -> bool:
    return pattern is None or pattern in name or fnmatch(name, pattern)


def _kafka_can_be_had() -> bool:
    try:
        apache_kafka.ApacheKafka().close()
    except Unavailable as reason:
        print(f"Apache Kafka cannot be had, so there is nothing to compare with: {reason}")
        return False
    return True


def _heading(options: argparse.Namespace) -> str:
    memory_gb = psutil.virtual_memory().total / 1e9
    lines = [
        f"kafscale {version('kafscale')} at {_commit()}; Apache Kafka {apache_kafka.VERSION}, "
        "KRaft, default settings, heap 1 GB",
        f"machine: {_processor()}, {os.cpu_count()} cores, {memory_gb:.0f} GB, "
        f"{platform.system()} {platform.release()}, load {os.getloadavg()[0]:.1f} at the start",
        f"our broker's Python: {_build(options.python)}",
        f"clients: Python {platform.python_version()}, "
        f"confluent-kafka {confluent_kafka.__version__}, "
        f"librdkafka {confluent_kafka.libversion()[0]}; {_java()}",
        clients.SETTINGS,
        raw.SETTINGS,
        old_formats.SETTINGS,
        groups.settings(groups.QUICK if options.quick else groups.FULL),
        "Client and broker share this machine. confluent-kafka in one Python process is the limit "
        "of most produce and consume rows (see client CPU, 100% is one core); the broker's "
        "CPU-seconds per GB are the figure that does not depend on it, raw rows are the ceiling.",
        "Before the first figure each broker writes and reads some data unmeasured, so that the "
        "JVM has compiled; after the restart for the cold rows it has not. Before each broker "
        "starts, a file is written and removed, so that neither runs on memory its host took back.",
        "tail: just written. cold: after a restart of the broker; both brokers' files are still "
        "in the page cache of the operating system.",
        "ratio: ours / Kafka. MB are 10^6 bytes of record values. "
        f"Medians of {options.runs} runs, brokers taking turns; spread: least and most of them.",
        "bare: CPU-s/GB of a program that receives, checksums and writes, measured right before "
        "(benchmarks/limit.py). latency rows: a life of its own on a new folder, before all else; "
        "memory: the folder is in /dev/shm.",
    ]
    if options.quick:
        lines.append("quick: too short for the JVM to be warm, so Kafka looks worse than it is.")
    if options.env:
        # Names only: a value may be a key.
        lines.append(f"ours with {', '.join(pair.split('=')[0] for pair in options.env)}")
    return "\n".join(lines)


def _build(python: str) -> str:
    """Which interpreter it is, whether its configuration names optimisations, and its speed.

    Some distributions optimise without naming it, so the time of a loop is shown, too.
    """
    code = (
        "import platform, sysconfig, timeit\n"
        "args = sysconfig.get_config_var('CONFIG_ARGS') or ''\n"
        "named = [n for n in ('--enable-optimizations', '--with-lto') if n in args]\n"
        "s = min(timeit.repeat('for i in range(1000): x = {i: i}', number=1000, repeat=5))\n"
        "from kafscale.records import strides\n"
        "print(platform.python_version(), 'at', __import__('sys').executable + ',',"
        " 'configured with', (' '.join(named) or 'no optimisation named') + ',',"
        " f'a loop of a million small dictionaries in {s * 1000:.0f} ms,',"
        " 'record walk', 'compiled' if strides.WALK_IS_COMPILED else 'in Python')"
    )
    env = {**os.environ, **KafscaleProcess(python=python).environment()}
    said = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, check=True)
    return said.stdout.strip()


def _commit() -> str:
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "no commit"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _java() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "no Java"
    return said.stderr.splitlines()[0]


def _write_json(
    path: Path, heading: str, runs: list[tuple[str, Figure]], found: list[report.Row]
) -> None:
    document = {
        "heading": heading.splitlines(),
        "rows": [asdict(row) for row in found],
        "runs": [{"broker": label, **asdict(figure)} for label, figure in runs],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
