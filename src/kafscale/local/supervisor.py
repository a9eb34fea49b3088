"""The supervisor of a fleet: starts everything in order, keeps it alive, stops it in order.

Here: etcd and the S3 server before the brokers, the brokers gone before those two; what
cluster.json says at every moment.
Next door: one process (child.py), the commands (fleet_programs.py).
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from typing import Final, TypedDict

import msgspec

from kafscale.local import ports
from kafscale.local.child import Child, ChildState
from kafscale.local.companion import address
from kafscale.local.errors import LocalError
from kafscale.local.fleet_programs import BUCKET, REGION, FleetPrograms, offsets
from kafscale.local.folder import (
    BrokerState,
    ClusterStatus,
    EtcdState,
    Folder,
    LocalFleet,
    ProcessState,
    S3State,
)
from kafscale.local.wakeup import Wakeup, listening
from kafscale.model.clock import Clock, Dice
from kafscale.settings.sections import ConsoleSection

_BROKERS: Final = 3
_START_WITHIN_S: Final = 120.0
_TRIES: Final = 3  # of a process that has never answered
_PAUSE_S: Final = 0.1
_IDLE_S: Final = 5.0  # the end of a child wakes us sooner

Say = Callable[[str], None]


def supervise(
    folder: Folder,
    brokers: int | None,
    etcd: int | None,
    clock: Clock,
    dice: Dice,
    say: Say,
    console: ConsoleSection | None = None,
) -> None:
    """Run a fleet until a signal stops it. LocalError if it cannot be started.

    Without a size, the fleet has as many brokers and etcd members as last time, else three and
    one. With 0 brokers only etcd and the S3 server run; the next start has as many as before.
    `console`: settings of the web console; None: there is none.
    """
    with contextlib.ExitStack() as undo:
        undo.callback(folder.lock().close)
        folder.unpublish()  # a killed supervisor may have left its file
        wakeup = undo.enter_context(listening())
        before = folder.remembered()
        fleet = _fleet(folder, brokers, etcd, clock, dice, undo)
        members = FleetPrograms(folder, fleet)
        usual = fleet.brokers or (before.brokers if before else _BROKERS)
        folder.remember(msgspec.structs.replace(fleet, brokers=usual))
        folder.write_env({"KAFSCALE_BOOTSTRAP": members.bootstrap, **members.storage_variables()})
        supervisor = Supervisor(members, wakeup, clock, say, console if fleet.brokers else None)
        try:
            supervisor.run()
        finally:
            supervisor.stop()


def _fleet(
    folder: Folder,
    brokers: int | None,
    etcd: int | None,
    clock: Clock,
    dice: Dice,
    undo: contextlib.ExitStack,
) -> LocalFleet:
    """Choose ports and credentials, or use those of the last time."""
    old = folder.remembered()
    if old is None:
        brokers, etcd = _BROKERS if brokers is None else brokers, etcd or 1
        block = ports.choose(offsets(brokers, etcd), dice)
        undo.callback(block.close)
        return LocalFleet(block.base, brokers, etcd, dice.token(10).hex(), dice.token(20).hex())
    if etcd not in (None, old.etcd):
        raise LocalError(
            f"the etcd in {folder.path} has {old.etcd} member(s), which cannot be changed: "
            "leave --etcd out or give another --data"
        )
    brokers = old.brokers if brokers is None else brokers
    block = ports.take(old.port_base, offsets(brokers, old.etcd), clock)
    undo.callback(block.close)
    return LocalFleet(old.port_base, brokers, old.etcd, old.access_key, old.secret_key)


class Supervisor:
    """Processes on two levels: etcd and the S3 server, and the brokers that need them."""

    def __init__(
        self,
        members: FleetPrograms,
        wakeup: Wakeup,
        clock: Clock,
        say: Say,
        console: ConsoleSection | None = None,
    ) -> None:
        self._members = members
        self._wakeup = wakeup
        self._clock = clock
        self._say = say
        self._etcd = [Child(program, clock) for program in members.etcd()]
        self._s3 = Child(members.s3(), clock)
        self._brokers = [Child(program, clock) for program in members.brokers()]
        self._console: list[Child] = []
        self._console_note = ""
        if console is not None:
            port, self._console_note = address(console, os.environ)
            if port is not None:
                program = members.console(port, bool(console.tls.cert_file))
                self._console = [Child(program, clock)]
        self._published = False
        self._is_outdated = False

    def run(self) -> None:
        """Start everything, then watch it until a signal asks to stop."""
        self._start([*self._etcd, self._s3])
        self._start(self._brokers)
        if self._wakeup.asked_to_leave:
            return
        self._publish()
        self._say(f"bootstrap  {self._members.bootstrap}")
        if self._console_note:
            self._say(f"console    {self._console_note}")
        everyone = [*self._etcd, self._s3, *self._brokers, *self._console]
        while not self._wakeup.asked_to_leave:
            self._tend([child for child in everyone if self._may_start(child)])
            calm = all(child.state in (ChildState.UP, ChildState.PAUSED) for child in everyone)
            self._wakeup.wait(_IDLE_S if calm else _PAUSE_S)

    def _may_start(self, child: Child) -> bool:
        """Whether it runs, or what it stands on does: a broker without that would end at once."""
        if child.pid is not None or child not in self._brokers:
            return True
        members_up = sum(member.state is ChildState.UP for member in self._etcd)
        return self._s3.state is ChildState.UP and 2 * members_up > len(self._etcd)

    def stop(self) -> None:
        """Stop the brokers, then the S3 server and etcd. No process is left."""
        try:
            self._members.folder.unpublish()
        except OSError as problem:
            self._say(f"cluster.json cannot be removed: {problem}")
        self._say("stopping")
        self._stop(self._console)
        self._stop(self._brokers)
        self._stop([self._s3])
        self._stop(self._etcd)
        for left in self._members.s3_sockets():
            left.unlink(missing_ok=True)

    def _start(self, children: list[Child]) -> None:
        """Wait until all of them answer, or a signal asks to stop."""
        until_s = self._clock.elapsed_s() + _START_WITHIN_S
        everyone = [child for child in (*self._etcd, self._s3) if child.was_up]
        while not self._wakeup.asked_to_leave:
            self._tend([*everyone, *children])
            if all(child.was_up for child in children):
                return
            for child in children:
                if not child.was_up and child.quick_deaths >= _TRIES:
                    raise LocalError(_story(child, f"ended with {child.last_status}"))
                if not child.was_up and self._clock.elapsed_s() > until_s:
                    raise LocalError(
                        _story(child, f"does not answer after {_START_WITHIN_S:.0f} s")
                    )
            self._wakeup.wait(_PAUSE_S)

    def _tend(self, children: Iterable[Child]) -> None:
        changed = False
        for child in children:
            if not child.tend():
                continue
            changed = True
            name = f"{child.program.name:<10}"
            if child.state is ChildState.UP:
                self._say(f"{name} 127.0.0.1:{child.program.port}, process {child.pid}")
            elif child.state is ChildState.DOWN:
                self._say(f"{name} {_end(child)}; it is started again")
            elif child.state is ChildState.PAUSED:
                self._say(f"{name} is paused, process {child.pid}; it is left alone")
        if self._published and (changed or self._is_outdated):
            self._publish_again()

    def _publish_again(self) -> None:
        """Write cluster.json, if need be later: a full disk is no reason to stop anything."""
        try:
            self._publish()
        except OSError as problem:
            if not self._is_outdated:
                self._say(f"cluster.json cannot be written: {problem}; it is tried again")
            self._is_outdated = True
        else:
            self._is_outdated = False

    def _stop(self, children: list[Child]) -> None:
        for child in children:
            child.ask_to_stop()
        within_s = max((child.program.stop_within_s for child in children), default=0.0)
        until_s = self._clock.elapsed_s() + within_s
        while not all(child.has_ended() for child in children):
            if self._wakeup.asked_to_leave > 1 or self._clock.elapsed_s() > until_s:
                break
            self._wakeup.wait(_PAUSE_S)
        for child in children:
            if not child.has_ended() and child.program.stop_signal != signal.SIGKILL:
                self._say(f"{child.program.name:<10} does not stop; it is killed")
            child.kill()

    def _publish(self) -> None:
        members = self._members
        self._published = True
        members.folder.publish(
            ClusterStatus(
                bootstrap=members.bootstrap,
                brokers=[
                    BrokerState(id=number, metrics_port=child.program.port + 1, **_facts(child))
                    for number, child in enumerate(self._brokers, start=1)
                ],
                etcd=EtcdState(
                    endpoints=members.etcd_endpoints,
                    members=[ProcessState(**_facts(child)) for child in self._etcd],
                ),
                s3=S3State(
                    endpoint=members.s3_endpoint,
                    region=REGION,
                    bucket=BUCKET,
                    credentials=str(members.folder.env_file),
                    **_facts(self._s3),
                ),
                supervisor=os.getpid(),
            )
        )


def _end(child: Child) -> str:
    if child.not_started_because:
        return f"cannot be started: {child.not_started_because}"
    return "hung, and was killed" if child.was_hung else f"ended with {child.last_status}"


class _Facts(TypedDict):
    pid: int | None
    port: int
    state: str
    restarts: int


def _facts(child: Child) -> _Facts:
    return {
        "pid": child.pid,
        "port": child.program.port,
        "state": child.state.value,
        "restarts": child.restarts,
    }


def _story(child: Child, what: str) -> str:
    log = child.program.log
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
    return f"{child.program.name} {what}; see {log}: {last[:300]}"
