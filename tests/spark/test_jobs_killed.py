"""SIGKILL in the middle of compaction: nothing is lost, and the next run finishes the work."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.topics import make_topic
from kafscale.log.protocol import commits, survey
from kafscale.records import batch, record
from kafscale.records.record import Record
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.compaction import commit_waves
from kafscale.spark.jobs.compaction.by_key import compact_by_key
from kafscale.spark.jobs.logs import removal
from tests.spark.killing import is_worker
from tests.unit.spark.jobs.place import local

FOLDER = "default/killed/0"
WITHIN_S = 200  # Spark alone takes a minute to start on a busy machine


def rows(bucket: Bucket) -> list[Record]:
    """Every record that counts, in order; every object the newest manifest names must be there."""
    found: list[Record] = []
    for piece in bucket.run(lambda store: survey.take_snapshot(store, FOLDER)).pieces:
        data = bucket.read(piece.key)
        for at, header in batch.walk(data, 32, len(data) - 16):
            if header.record_count:
                found += record.open_batch(data[at : at + header.size], 1 << 30)
    return found


def newest_of_each_key(written: list[Record]) -> list[Record]:
    newest = {one.key: one.offset for one in written}
    return [one for one in written if newest[one.key] == one.offset]


@contextmanager
def started(url: str, *words: str, master: str = "local[2]") -> Iterator[subprocess.Popen[bytes]]:
    """The job as a process of its own; nothing of it is left afterwards."""
    command = [
        sys.executable, "-m", "kafscale.cli.main", "pipeline", "compact", "--store", url,
        "--master", master, "--conf", "spark.driver.memory=1g", "--target", "100K", *words,
    ]  # fmt: skip
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield job
    finally:
        if job.poll() is None:
            kill_the_driver(job)


def outputs(root: Path) -> list[str]:
    return [path.name for path in (root / FOLDER).glob("segment-*-*-*.kfs")]


def wait_for_outputs(job: subprocess.Popen[bytes], root: Path, count: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while len(outputs(root)) < count:
        assert job.poll() is None, job.stderr and job.stderr.read().decode()[-2000:]
        assert time.monotonic() < deadline, "the job has written nothing"
        time.sleep(0.01)


def kill_the_driver(job: subprocess.Popen[bytes]) -> None:
    """The driver dies; Spark's other processes notice, or are ended when they have not."""
    others = psutil.Process(job.pid).children(recursive=True)
    job.kill()
    job.wait()
    _, alive = psutil.wait_procs(others, timeout=20)
    for process in alive:
        process.kill()


def kill_the_workers(job: subprocess.Popen[bytes]) -> int:
    killed = 0
    for process in psutil.Process(job.pid).children(recursive=True):
        if is_worker(process):
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                process.kill()
                killed += 1
    return killed


def plainly(work: Callable[[Context], Report], url: str) -> Report:
    return work(Context(Bucket(url), session=object()))  # type: ignore[arg-type]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A thousand small objects."""
    return make_topic(tmp_path, "killed", 5_000_000, object_bytes=5000, batch_records=10)


@pytest.mark.parametrize("words", [[], ["--by-key", "--dirty-ratio", "0"]], ids=["merge", "by-key"])
def test_a_killed_driver_loses_nothing_and_the_next_run_finishes_the_work(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    bucket = Bucket(url)
    written = rows(bucket)
    with started(url, *words) as job:
        wait_for_outputs(job, tmp_path, random.randrange(1, 12))
        kill_the_driver(job)
    expected = newest_of_each_key(written) if words else written
    assert rows(bucket) in (written, expected)

    monkeypatch.setattr(commit_waves, "run_units", local)
    report = plainly(compact_by_key if words else compact, url)
    assert report.exit_code == 0
    assert rows(bucket) == expected
    for _ in range(3):  # orphans are condemned, then deleted, then taken off the list
        removal.sweep(bucket, FOLDER, 0)
    newest = bucket.run(lambda store: commits.read_newest(store, FOLDER))
    left = {path.name for path in (tmp_path / FOLDER).glob("*.kfs")}
    assert left == newest.names()
    assert rows(bucket) == expected


def test_killed_workers_are_replaced(tmp_path: Path, url: str) -> None:
    bucket = Bucket(url)
    written = rows(bucket)
    with started(url, master="local[2,8]") as job:
        wait_for_outputs(job, tmp_path, random.randrange(1, 6))
        while not kill_the_workers(job):
            assert job.poll() is None, "no worker was ever seen"
        _, errors = job.communicate(timeout=WITHIN_S)
    assert job.returncode == 0, errors.decode()[-3000:]
    assert rows(bucket) == written
    newest = bucket.run(lambda store: commits.read_newest(store, FOLDER))
    assert len(newest.segments) < 100
