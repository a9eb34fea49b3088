"""The order of things: what is started before what, stopped before what, and said meanwhile."""

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafscale.local.child import Program
from kafscale.local.errors import LocalError
from kafscale.local.folder import ClusterStatus, Folder
from kafscale.local.supervisor import Supervisor
from kafscale.local.wakeup import listening
from kafscale.system import SystemClock

PATIENT = """
echo "$NAME began" >> ../story.txt
trap 'echo "$NAME asked to stop" >> ../story.txt; exit 0' TERM
echo > ready
while :; do sleep 0.02; done
"""


class SmallFleet:
    """Shell scripts in place of etcd, S3 server and two brokers."""

    bootstrap, etcd_endpoints, s3_endpoint = "127.0.0.1:3,127.0.0.1:5", ["127.0.0.1:1"], "http://x"

    def __init__(self, folder: Path) -> None:
        self.folder = Folder(folder)
        self.scripts = {"etcd-1": PATIENT, "s3": PATIENT, "broker-1": PATIENT, "broker-2": PATIENT}
        self.socket = folder / "left.sock"

    def program(self, name: str, port: int, stop_signal: signal.Signals) -> Program:
        place = self.folder.path / name
        return Program(
            name=name,
            port=port,
            command=("sh", "-c", self.scripts[name]),
            environment={**os.environ, "NAME": name},
            folder=place,
            log=self.folder.log(name),
            answers=(place / "ready").exists,
            lives=lambda: True,
            stop_signal=stop_signal,
            stop_within_s=30.0,
        )

    def etcd(self) -> Iterator[Program]:
        yield self.program("etcd-1", 1, signal.SIGTERM)

    def s3(self) -> Program:
        return self.program("s3", 2, signal.SIGTERM)

    def brokers(self) -> Iterator[Program]:
        yield self.program("broker-1", 3, signal.SIGTERM)
        yield self.program("broker-2", 5, signal.SIGTERM)

    def s3_sockets(self) -> Iterator[Path]:
        yield self.socket

    def story(self) -> list[str]:
        return (self.folder.path / "story.txt").read_text().splitlines()


@pytest.fixture
def fleet(tmp_path: Path) -> SmallFleet:
    return SmallFleet(tmp_path)


def leave() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def run(fleet: SmallFleet, hear: Callable[[str], None]) -> None:
    """As `supervise` does, with `hear` in place of the terminal."""
    with listening() as wakeup:
        supervisor = Supervisor(fleet, wakeup, SystemClock(), hear)  # type: ignore[arg-type]
        try:
            supervisor.run()
        finally:
            supervisor.stop()


def test_brokers_come_last_and_go_first(fleet: SmallFleet) -> None:
    fleet.socket.touch()
    published: list[ClusterStatus | None] = []

    def hear(line: str) -> None:
        if line.startswith("bootstrap"):
            published.append(fleet.folder.cluster())
            leave()
        else:
            assert fleet.folder.cluster() is None, "published before all answered"

    run(fleet, hear)
    story = fleet.story()
    assert set(story[:2]) == {"etcd-1 began", "s3 began"}
    assert set(story[2:4]) == {"broker-1 began", "broker-2 began"}
    assert set(story[4:6]) == {"broker-1 asked to stop", "broker-2 asked to stop"}
    assert story[6:] == ["s3 asked to stop", "etcd-1 asked to stop"]
    (cluster,) = published
    assert cluster is not None
    assert (cluster.supervisor, cluster.bootstrap) == (os.getpid(), fleet.bootstrap)
    assert [(one.id, one.port, one.state) for one in cluster.brokers] == [
        (1, 3, "up"),
        (2, 5, "up"),
    ]
    assert fleet.folder.cluster() is None
    assert not fleet.socket.exists()


def test_a_fleet_may_have_no_brokers(fleet: SmallFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "brokers", lambda: iter(()))
    published: list[ClusterStatus | None] = []

    def hear(line: str) -> None:
        if line.startswith("bootstrap"):
            published.append(fleet.folder.cluster())
            leave()

    run(fleet, hear)
    (cluster,) = published
    assert cluster is not None
    assert cluster.brokers == []
    assert fleet.story()[2:] == ["s3 asked to stop", "etcd-1 asked to stop"]


def test_the_file_follows_a_process_that_is_started_again(fleet: SmallFleet) -> None:
    seen: list[ClusterStatus] = []

    def hear(line: str) -> None:
        if line.startswith("bootstrap"):
            found = fleet.folder.cluster()
            assert found is not None
            seen.append(found)
            (fleet.folder.path / "broker-2" / "ready").unlink()
            pid = found.brokers[1].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        elif seen and line.startswith("broker-2   ended with -9"):
            leave_when_up.append(line)
        elif leave_when_up and line.startswith("broker-2   127"):
            leave()

    leave_when_up: list[str] = []
    states: list[tuple[str, bool]] = []
    publish = fleet.folder.publish

    def watched(cluster: ClusterStatus) -> None:
        publish(cluster)
        states.append((cluster.brokers[1].state, cluster.brokers[1].pid is None))

    fleet.folder.publish = watched  # type: ignore[method-assign]
    run(fleet, hear)
    assert states == [("up", False), ("down", True), ("starting", False), ("up", False)]


def test_a_full_disk_stops_no_process_and_the_file_is_written_when_there_is_room(
    fleet: SmallFleet,
) -> None:
    publish = fleet.folder.publish
    states: list[str] = []

    def full(cluster: ClusterStatus) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def hear(line: str) -> None:
        if line.startswith("bootstrap"):
            found = fleet.folder.cluster()
            assert found is not None
            assert found.brokers[1].pid is not None
            fleet.folder.publish = full  # type: ignore[method-assign]
            os.kill(found.brokers[1].pid, signal.SIGKILL)
        elif line.startswith("cluster.json cannot be written"):
            fleet.folder.publish = watched  # type: ignore[method-assign]

    def watched(cluster: ClusterStatus) -> None:
        publish(cluster)
        states.append(cluster.brokers[1].state)
        if states[-1] == "up":
            leave()

    run(fleet, hear)
    assert states[-1] == "up"


def test_one_that_never_comes_up_ends_the_start_with_its_last_words(fleet: SmallFleet) -> None:
    fleet.scripts["broker-1"] = "echo some words; echo a bad setting >&2; echo; exit 4"
    with pytest.raises(
        LocalError, match=r"broker-1 ended with 4; see .*broker-1\.log: a bad setting"
    ):
        run(fleet, lambda line: None)
    assert fleet.story()[-2:] == ["s3 asked to stop", "etcd-1 asked to stop"]


def test_leaving_while_it_starts_stops_what_was_started(fleet: SmallFleet) -> None:
    fleet.scripts["s3"] = PATIENT.replace("echo > ready", "")
    run(fleet, lambda line: leave() if line.startswith("etcd-1") else None)
    assert "broker-1 began" not in fleet.story()
    assert "s3 asked to stop" in fleet.story()


def test_a_second_request_does_not_wait_for_any_process(fleet: SmallFleet) -> None:
    fleet.scripts["broker-1"] = PATIENT.replace("exit 0", "kill -TERM $PPID")
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        if line.startswith("bootstrap"):
            leave()

    run(fleet, hear)
    assert "broker-1   does not stop; it is killed" in said


def test_a_broker_is_started_again_only_when_there_is_something_to_stand_on(
    fleet: SmallFleet,
) -> None:
    def hear(line: str) -> None:
        if line.startswith("bootstrap"):
            (fleet.folder.path / "s3" / "ready").unlink()
            found = fleet.folder.cluster()
            assert found is not None
            for pid in (found.brokers[0].pid, found.s3.pid):
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
            killed.append(len(fleet.story()))
        elif killed and line.startswith("broker-1   127"):
            leave()
        elif killed and line.startswith("s3         127"):
            said_at.append(len(fleet.story()))

    killed: list[int] = []
    said_at: list[int] = []
    (fleet.folder.path / "broker-1").mkdir(parents=True)
    fleet.scripts["broker-1"] = PATIENT.replace("echo > ready", "sleep 0.3; echo > ready")
    run(fleet, hear)
    story = fleet.story()
    assert story[killed[0] : said_at[0]] == ["s3 began"]
    assert story[said_at[0]] == "broker-1 began"
