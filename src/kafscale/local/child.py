"""One process that is kept alive: started, watched, started again, stopped.

Here: the life of a single process, and how long to wait before starting it again.
Next door: which processes there are (fleet_programs.py), the order among them (supervisor.py).
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from kafscale.model.clock import Clock

_PR_SET_PDEATHSIG: Final = 1
_LOOK_EVERY_S: Final = 4.0
_SILENT_LOOKS: Final = 3  # without an answer in a row: it hangs
_LONG_ENOUGH_S: Final = 10.0  # a shorter life counts as a quick death
_FIRST_DELAY_S: Final = 0.25
_LONGEST_DELAY_S: Final = 30.0


class ChildState(StrEnum):
    """What a process is doing."""

    DOWN = "down"
    STARTING = "starting"
    UP = "up"
    PAUSED = "paused"  # stopped by SIGSTOP; SIGCONT lets it go on


@dataclass(frozen=True, slots=True)
class Program:
    """How to run a process, how to check that it answers, how to stop it."""

    name: str
    port: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    answers: Callable[[], bool]  # whether it is ready for work
    lives: Callable[[], bool]  # whether it answers anything at all
    stop_signal: signal.Signals
    stop_within_s: float


class Child:
    """A program that runs, or will be started again."""

    def __init__(self, program: Program, clock: Clock) -> None:
        self.program = program
        self.state = ChildState.DOWN
        self.restarts = 0
        self.was_up = False
        self.quick_deaths = 0
        self.last_status: int | None = None
        self.was_hung = False  # when it ended last
        self.not_started_because = ""  # when we last tried
        self._silent = 0
        self._look_at_s = 0.0
        self._clock = clock
        self._began_s = 0.0
        self._start_at_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        return self._process.pid if self._process else None

    def tend(self) -> bool:
        """Do what is due: notice its end, kill it if it hangs, start it again, ask it.

        True if its state has changed.
        """
        if self._process is None:
            if self._clock.elapsed_s() < self._start_at_s:
                return False
            try:
                self._start()
            except OSError as problem:
                if not self.was_up:
                    raise
                self._put_off(problem)  # for example a full disk: that may pass
            return True
        if (status := self._process.poll()) is not None:
            self._note_end(status)
            return True
        if self.state is ChildState.STARTING and self.program.answers():
            self.state, self.was_up = ChildState.UP, True
            self._silent, self._look_at_s = 0, self._clock.elapsed_s() + _LOOK_EVERY_S
            return True
        if self.state is ChildState.STARTING:
            return False
        if _is_paused(self._process.pid) != (self.state is ChildState.PAUSED):
            self.state = ChildState.UP if self.state is ChildState.PAUSED else ChildState.PAUSED
            self._silent, self._look_at_s = 0, self._clock.elapsed_s() + _LOOK_EVERY_S
            return True
        return self.state is ChildState.UP and self._end_if_hung(self._process)

    def _end_if_hung(self, process: subprocess.Popen[bytes]) -> bool:
        """Check now and then; a process that was up and answers nothing any more is killed."""
        if self._clock.elapsed_s() < self._look_at_s:
            return False
        self._silent = 0 if self.program.lives() else self._silent + 1
        self._look_at_s = self._clock.elapsed_s() + _LOOK_EVERY_S
        if self._silent < _SILENT_LOOKS:
            return False
        process.kill()
        self._note_end(process.wait())
        self.was_hung = True
        return True

    def ask_to_stop(self) -> None:
        """Send the signal that this program stops on; SIGCONT lets a paused process receive it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self.program.stop_signal)
            self._process.send_signal(signal.SIGCONT)

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process, self.state = None, ChildState.DOWN

    def _start(self) -> None:
        program = self.program
        program.folder.mkdir(parents=True, exist_ok=True)
        program.log.parent.mkdir(parents=True, exist_ok=True)
        with program.log.open("ab") as log:
            self._process = subprocess.Popen(
                program.command,
                env=program.environment,
                cwd=program.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C reaches the whole terminal group: the supervisor decides the order.
                start_new_session=True,
                preexec_fn=dying_with(os.getpid()),
            )
        self.restarts += self.last_status is not None
        self._began_s = self._clock.elapsed_s()
        self.state = ChildState.STARTING

    def _note_end(self, status: int) -> None:
        now_s = self._clock.elapsed_s()
        lived_long = now_s - self._began_s >= _LONG_ENOUGH_S and self.state is ChildState.UP
        self.quick_deaths = 0 if lived_long else self.quick_deaths + 1
        self._start_at_s = now_s + delay_s(self.quick_deaths)
        self._process, self.state, self.last_status = None, ChildState.DOWN, status
        self.was_hung, self.not_started_because = False, ""

    def _put_off(self, problem: OSError) -> None:
        self.quick_deaths += 1
        self._start_at_s = self._clock.elapsed_s() + delay_s(self.quick_deaths)
        self.not_started_because = str(problem)


def delay_s(quick_deaths: int) -> float:
    """Give the pause before the next start, after so many quick deaths in a row."""
    if quick_deaths == 0:
        return 0.0
    return min(_FIRST_DELAY_S * 2.0 ** min(quick_deaths - 1, 16), _LONGEST_DELAY_S)


def _is_paused(pid: int) -> bool:
    """Whether SIGSTOP has paused the child; False where the system cannot tell."""
    if not hasattr(os, "waitid"):  # macOS, before Python 3.13
        return False
    return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


def dying_with(parent: int) -> Callable[[], None] | None:
    """Let the kernel kill the child when this process ends, however it ends. Only on Linux."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # the parent ended before the kernel was told
            os._exit(1)

    return before_exec
