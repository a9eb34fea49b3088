"""One process: started, found dead, started again after pauses that grow, stopped."""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafscale.local.child import Child, ChildState, Program, delay_s
from kafscale.testing.clock import ManualClock


class Rig:
    """Children that are gone when the test is over."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.answering = True
        self.looks: list[bool] = []  # what the next ones find; nothing: it lives
        self.children: list[Child] = []
        self._folder = folder

    def child(self, script: str) -> Child:
        program = Program(
            name="one",
            port=1,
            command=("sh", "-c", script),
            environment={**os.environ, "GREETING": "hello"},
            folder=self._folder / "data",
            log=self._folder / "logs" / "one.log",
            answers=lambda: self.answering,
            lives=lambda: not self.looks or self.looks.pop(0),
            stop_signal=signal.SIGTERM,
            stop_within_s=5.0,
        )
        self.children.append(Child(program, self.clock))
        return self.children[-1]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    for child in made.children:
        child.kill()


def until_ended(child: Child) -> None:
    while not child.has_ended():
        time.sleep(0.005)


def test_it_runs_in_its_folder_with_its_variables_and_its_log(rig: Rig, tmp_path: Path) -> None:
    child = rig.child('echo "$GREETING from $(pwd)"')
    child.tend()
    until_ended(child)
    assert (tmp_path / "logs" / "one.log").read_text() == f"hello from {tmp_path}/data\n"


def test_it_is_up_when_it_answers(rig: Rig) -> None:
    rig.answering = False
    child = rig.child("exec sleep 60")
    assert (child.state, child.pid) == (ChildState.DOWN, None)
    assert child.tend()
    assert (child.state, child.was_up) == (ChildState.STARTING, False)
    assert not child.tend()
    rig.answering = True
    assert child.tend()
    assert (child.state, child.was_up) == (ChildState.UP, True)
    assert not child.tend()


def test_one_that_lived_a_while_is_started_again_at_once(rig: Rig) -> None:
    child = rig.child("exec sleep 60")
    child.tend(), child.tend()
    first = child.pid
    assert first is not None
    rig.clock.advance_ms(11_000)
    os.kill(first, signal.SIGKILL)
    until_ended(child)
    assert child.tend()
    assert (child.state, child.pid, child.last_status) == (ChildState.DOWN, None, -signal.SIGKILL)
    assert child.tend()
    assert child.pid not in (None, first)
    assert child.restarts == 1


def test_one_that_dies_at_once_is_given_time(rig: Rig) -> None:
    child = rig.child("exit 3")
    for tries in range(1, 4):
        child.tend()
        until_ended(child)
        child.tend()
        assert (child.quick_deaths, child.last_status) == (tries, 3)
        assert not child.tend()
        rig.clock.advance_ms(delay_s(tries) * 1000)


def test_the_wait_doubles_up_to_half_a_minute() -> None:
    waits = [delay_s(deaths) for deaths in range(12)]
    assert waits[0] == 0
    assert all(b in (2 * a, 30.0) for a, b in itertools.pairwise(waits[1:]))
    assert waits[-1] == delay_s(10_000) == 30.0


def test_it_is_asked_and_then_killed(rig: Rig) -> None:
    polite = rig.child("exec sleep 60")
    polite.tend()
    polite.ask_to_stop()
    until_ended(polite)
    stubborn = rig.child("trap '' TERM; echo deaf; while :; do sleep 1; done")
    stubborn.tend()
    while "deaf" not in stubborn.program.log.read_text():
        time.sleep(0.005)
    stubborn.ask_to_stop()
    assert not stubborn.has_ended()
    stubborn.kill()
    assert stubborn.has_ended()
    assert (stubborn.state, stubborn.pid) == (ChildState.DOWN, None)


def look(rig: Rig, child: Child, *answers: bool) -> list[bool]:
    """Whether anything changed, look by look."""
    changes = []
    for answer in answers:
        rig.looks.append(answer)
        rig.clock.advance_ms(5000)
        changes.append(child.tend())
        assert rig.looks == []
    return changes


def test_one_that_hangs_for_three_looks_is_killed_and_started_again(rig: Rig) -> None:
    child = rig.child("exec sleep 60")
    child.tend(), child.tend()
    hung = child.pid
    assert hung is not None
    assert look(rig, child, False, False, True, False, False) == [False] * 5
    assert child.pid == hung
    assert look(rig, child, False) == [True]
    assert (child.state, child.pid, child.was_hung) == (ChildState.DOWN, None, True)
    with pytest.raises(ProcessLookupError):
        os.kill(hung, 0)
    assert child.tend()  # it had lived long enough: at once
    assert child.tend()
    assert (child.state, child.restarts) == (ChildState.UP, 1)
    assert child.pid not in (None, hung)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this Python cannot tell that one is paused")
def test_a_paused_process_is_left_alone_until_it_goes_on(rig: Rig) -> None:
    child = rig.child("exec sleep 60")
    child.tend(), child.tend()
    paused = child.pid
    assert paused is not None
    os.kill(paused, signal.SIGSTOP)
    while not child.tend():
        time.sleep(0.005)
    assert child.state is ChildState.PAUSED
    rig.looks = [False] * 10
    for _ in range(10):
        rig.clock.advance_ms(60_000)
        assert not child.tend()
    assert len(rig.looks) == 10  # the supervisor did not look
    rig.looks = []
    os.kill(paused, signal.SIGCONT)
    while not child.tend():
        time.sleep(0.005)
    assert (child.state, child.pid, child.restarts) == (ChildState.UP, paused, 0)
    assert look(rig, child, False, False, False) == [False, False, True]


def test_one_that_is_paused_stops_when_asked(rig: Rig) -> None:
    child = rig.child("exec sleep 60")
    child.tend(), child.tend()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    child.ask_to_stop()
    until_ended(child)


def test_one_that_has_not_answered_yet_is_not_taken_for_hung(rig: Rig) -> None:
    rig.answering = False
    child = rig.child("exec sleep 60")
    child.tend()
    rig.looks = [False] * 10
    for _ in range(10):
        rig.clock.advance_ms(5000)
        assert not child.tend()
    assert child.state is ChildState.STARTING


def test_the_supervisor_looks_every_few_seconds_at_most(rig: Rig) -> None:
    child = rig.child("exec sleep 60")
    child.tend(), child.tend()
    rig.looks = [False] * 3
    for _ in range(100):
        assert not child.tend()
    assert len(rig.looks) == 3


def test_one_that_cannot_be_started_again_is_tried_later(rig: Rig, tmp_path: Path) -> None:
    child = rig.child("exec sleep 60")
    child.tend(), child.tend()
    log = child.program.log
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    until_ended(child)
    log.unlink()
    log.mkdir()  # a process that opens it for writing fails
    assert child.tend()
    rig.clock.advance_ms(1000)
    assert child.tend()
    assert (child.state, child.pid) == (ChildState.DOWN, None)
    assert "Is a directory" in child.not_started_because
    assert not child.tend()
    log.rmdir()
    rig.clock.advance_ms(delay_s(3) * 1000)
    assert child.tend()
    assert child.state is ChildState.STARTING
