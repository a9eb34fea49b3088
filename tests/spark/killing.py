"""Killing jobs and what works for them; everything is ended in the end.

Next door: the jobs in a process of their own (crashing.py), the tests (test_crashes.py and others).
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

ROOT = Path(__file__).parents[2]
WITHIN_S = 240  # Spark alone takes a minute to start on a busy machine


class Jobs:
    """A process that does jobs in turn; killing it kills Spark's JVM and the workers with it."""

    def __init__(
        self,
        folder: Path,
        jobs: Sequence[tuple[str, Mapping[str, object]]],
        *,
        spark: bool = True,
        marks: bool = False,
        master: str = "local[2]",
        conf: Mapping[str, str] | None = None,
    ) -> None:
        scratch, self._marks = folder.parent / "scratch", folder.parent / "marks"
        for one in (scratch, self._marks):
            one.mkdir(exist_ok=True)
        how = {
            "store": f"file://{folder}",
            "scratch": str(scratch),
            "spark": spark,
            "marks": str(self._marks) if marks else "",
            "master": master,
            "conf": dict(conf or {}),
        }
        self._log = folder.parent / "output"
        self._output = self._log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.crashing", json.dumps(how), json.dumps(jobs)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
        )

    def wait_for(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(
            f"the job ended before it said {word!r}:\n{self._log.read_text()[-3000:]}"
        )

    def next_mark(self, count: int = 1) -> int:
        """Wait until so many units have begun since the last call; who is at work on the newest."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            found = sorted(mark.name for mark in self._marks.iterdir())
            at_work = [name for name in found if not name.endswith(".over")]
            if at_work and len(found) >= count:
                break
            assert self.process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, "no unit of work has begun"
            time.sleep(0.01)
        for name in found:
            for mark in (self._marks / name, self._marks / f"{name}.over"):
                mark.unlink(missing_ok=True)
        return int(at_work[-1].partition("-")[2])

    def family(self) -> list[psutil.Process]:
        """The driver, the JVM and all workers."""
        return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(True)]

    def kill(self) -> None:
        """All at once, as when a machine loses power."""
        for one in reversed(self.family()):
            with contextlib.suppress(psutil.NoSuchProcess):  # it went with one killed before
                one.kill()
        self.process.wait()
        self._close()

    def kill_alone(self) -> None:
        """A driver without Spark has no children."""
        self.process.kill()
        self.process.wait()
        self._close()

    def kill_a_worker(self) -> bool:
        """One of the Python processes that do the work, if there is any now."""
        workers = [one for one in self.family() if is_worker(one)]
        for one in workers:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue  # it has ended meanwhile: the next one
            return True
        return False

    def finish(self) -> None:
        """The last job ends well."""
        self.wait_for("done")
        assert self.process.wait(120) == 0
        self._close()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill()


def is_worker(process: psutil.Process) -> bool:
    """Whether this is a process of Spark's that runs our code; one that ends right now is none."""
    try:
        return "pyspark.daemon" in " ".join(process.cmdline()) and not process.children()
    except psutil.Error:
        return False


def one_job(folder: Path, job: str, *, spark: bool = True, **arguments: Any) -> Jobs:
    """A process with a single job."""
    return Jobs(folder, [(job, arguments)], spark=spark)
