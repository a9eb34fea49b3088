"""librdkafka's own tests: built once from the sources in an npm package, run one number at a time.

In this room: the program, one run of it, what its summary says.
Next door: which numbers must pass (cases.py), many runs at a time (runner.py), the brokers
(targets.py), stand-ins for the scripts the suite calls (kafka_topics.py, kafka_acls.py).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat import sources
from tests.compat.cases import Case
from tests.compat.targets import Target
from tests.support import debian
from tests.support.maven import ROOT, Unavailable
from tests.support.program import dying_with_us

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
SHA256 = "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66"
# TLS and zstd are built in where their headers are installed; nothing is downloaded for them.
CONFIGURE = ["--disable-gssapi", "--disable-syslog", "--disable-lz4-ext"]
CONFIGURE += ["--disable-debug-symbols", "--disable-optimization"]
CONFIGURE += ["--CFLAGS=-O1 -w", "--CXXFLAGS=-O1 -w"]
TEST_FLAGS = "-O0 -w -I../src"
CLAIMED_VERSION = "3.9.0"
DEADLINE_S = 900

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FAILURE = re.compile(r'^### Test "(?!<MAIN>)(.*)" failed at .*: ###\n(.*)$', re.MULTILINE)
_SUBTEST = re.compile(r"\] \[ (\w+:\d+.*): PASS \(.*\) \]$", re.MULTILINE)
_SKIPPED = re.compile(r": SKIP: |Skipping ")
_ROW = re.compile(r"^\| (\d{4}_\w+) +\| +(\w+) \|", re.MULTILINE)


def program() -> Path:
    """The test program, built at the first call."""
    for tool in ("make", "gcc", "g++"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not installed")
    with_curl = _can_use_curl()
    with sources.locked(f"librdkafka-2.15.1{'-curl' if with_curl else ''}") as folder:
        built = folder / "tests" / "test-runner"
        if not built.exists():
            _build(folder, [] if with_curl else ["--disable-curl"])
    return built


def _can_use_curl() -> bool:
    """Whether the library can be had by which clients fetch tokens."""
    try:
        debian.program("curl-config", "libcurl4-openssl-dev")
    except Unavailable:
        return False
    return True


def _build(folder: Path, options: list[str]) -> None:
    archive = sources.npm(PACKAGE, folder, SHA256)
    sources.unpack(archive, "package/deps/librdkafka", folder)
    archive.unlink()
    jobs = f"-j{os.cpu_count() or 2}"
    sources.build(["bash", "./configure", *CONFIGURE, *options], folder)
    sources.build(["make", jobs, "-C", "src", "librdkafka.a"], folder)
    sources.build(["make", jobs, "-C", "src-cpp", "librdkafka++.a"], folder)
    # Under another name first: a build that was interrupted must not look finished.
    flags = [f"CFLAGS={TEST_FLAGS}", "BIN=unfinished"]
    sources.build(["make", jobs, "-C", "tests", "unfinished", *flags], folder)
    (folder / "tests" / "unfinished").rename(folder / "tests" / "test-runner")


@dataclass
class Verdict:
    """What became of one case."""

    case: Case
    states: dict[str, str] = field(default_factory=dict)  # function -> state
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0
    requests: float = 0.0  # without ApiVersions
    parts_skipped: int = 0
    output: str = ""

    @property
    def unjudged(self) -> bool:
        """Whether this build of the suite lacks what the test needs, such as TLS."""
        return bool(self.reasons) and "not available at build time" in self.reasons[0]

    @property
    def skipped(self) -> bool:
        return not self.reasons and "PASSED" not in self.states.values()

    @property
    def passed(self) -> bool:
        return not self.reasons and not self.skipped and self.requests > 0

    def __str__(self) -> str:
        word = "passed" if self.passed else "skipped" if self.skipped else "FAILED"
        word = "unjudged" if self.unjudged else word
        skipped = f"{self.parts_skipped} parts skipped" if self.parts_skipped else ""
        why = "; ".join(self.reasons) or (skipped if self.requests else "no request was sent")
        name = f"{self.case}, idempotent" if self.case.idempotent else str(self.case)
        told = f"{word:9}{self.seconds:6.1f} s {self.requests:7.0f} requests  {name}  {why}"
        return told.rstrip()


def run(case: Case, target: Target) -> Verdict:
    """Run one case. The caller counts the requests, at the broker."""
    runner = program()
    with tempfile.TemporaryDirectory(prefix="librdkafka-") as name:
        folder = Path(name)
        conf = folder / "test.conf"
        # The suite's own multiplier for three tests in parallel.
        settings = {"metadata.broker.list": target.bootstrap, "test.timeout.multiplier": "2"}
        lines = (f"{name}={value}\n" for name, value in (settings | target.conf).items())
        conf.write_text("".join(lines))
        (folder / "fixtures").symlink_to(runner.parent / "fixtures")
        command = [str(runner), "-L", "-p1", "-s", case.scenario]
        command += ["-P"] if case.idempotent else []
        output = folder / "output.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                dying_with_us(command),
                cwd=folder,
                env={**os.environ, **_environment(case, conf, folder, target)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, 9)
                    process.wait()
        return read(case, status, _COLOUR.sub("", output.read_text(errors="replace")))


def read(case: Case, status: int | None, output: str) -> Verdict:
    """Take the output apart: failures as they were met, the summary at the end if there is one."""
    verdict = Verdict(case, output=output)
    verdict.reasons = [f"{name}: {message}" for name, message in _FAILURE.findall(output)]
    for name, state in _ROW.findall(output):
        if name.startswith(case.number):
            verdict.states[name] = state
    if case.subtest and not any(case.subtest in name for name in _SUBTEST.findall(output)):
        verdict.reasons.append("no such subtest has passed")
    verdict.parts_skipped = len(_SKIPPED.findall(output))
    if status is None:
        verdict.reasons.append(f"not finished after {DEADLINE_S} s")
    elif status and not verdict.reasons:
        verdict.reasons.append(f"ended with {status}")
    return verdict


def _environment(case: Case, conf: Path, folder: Path, target: Target) -> dict[str, str]:
    scripts = folder / "bin"
    scripts.mkdir()
    for name in ("kafka-topics.sh", "kafka-acls.sh"):
        module = name.removesuffix(".sh").replace("-", "_")
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.compat.{module} "$@"\n')
        script.chmod(0o755)
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        "RDKAFKA_TEST_CONF": str(conf),
        "TESTS": case.number,
        **({"SUBTESTS": case.subtest} if case.subtest else {}),
        "TEST_KAFKA_VERSION": case.version or CLAIMED_VERSION,
        "TEST_CONSUMER_GROUP_PROTOCOL": case.protocol,
        "KAFKA_PATH": str(folder),
        "BROKERS": target.bootstrap,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **target.env,
    }
