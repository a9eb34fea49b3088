"""The folder of a fleet: what it remembers, which process supervises it, where everything runs.

    fleet.json     what must stay the same from one start to the next: ports, size, credentials
    cluster.json   where everything is, while it runs and only then
    env.sh         the same as variables, for tools
    lock           held by the supervisor
    logs/          what each process printed
    brokers/ etcd-1/ ... s3/    data

fleet.json, env.sh and s3/identities.json hold the credentials of the S3 server and can be read
by their owner only.
"""

import fcntl
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from kafscale.local.errors import AlreadyRunning, LocalError

_LOCK_PATIENCE_S: Final = 1.0  # another command may be checking whether it is held
_PAUSE_S: Final = 0.05
_Kind = TypeVar("_Kind")


class LocalFleet(msgspec.Struct, frozen=True):
    """What must stay the same from one start to the next: fleet.json."""

    port_base: int
    brokers: int
    etcd: int
    access_key: str
    secret_key: str


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """One process as the supervisor sees it. No pid: it is down, and will be started again."""

    pid: int | None
    port: int
    state: str
    restarts: int


class BrokerState(ProcessState, frozen=True, kw_only=True):
    """A broker."""

    id: int
    metrics_port: int


class EtcdState(msgspec.Struct, frozen=True):
    """All of etcd."""

    endpoints: list[str]
    members: list[ProcessState]


class S3State(ProcessState, frozen=True, kw_only=True):
    """The S3 server. `credentials` is a file of shell variables."""

    endpoint: str
    region: str
    bucket: str
    credentials: str


class ClusterStatus(msgspec.Struct, frozen=True):
    """Where everything runs: cluster.json."""

    bootstrap: str
    brokers: list[BrokerState]
    etcd: EtcdState
    s3: S3State
    supervisor: int


class Folder:
    """The files beside the data."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.logs = self.path / "logs"
        self.env_file = self.path / "env.sh"
        self._fleet = self.path / "fleet.json"
        self._cluster = self.path / "cluster.json"
        self._lock = self.path / "lock"

    def log(self, name: str) -> Path:
        """Give the file that a process's output goes to."""
        return self.logs / f"{name}.log"

    def remembered(self) -> LocalFleet | None:
        """Read what an earlier start chose."""
        return _read(self._fleet, LocalFleet)

    def remember(self, fleet: LocalFleet) -> None:
        """Keep the choices for the next start."""
        write_privately(self._fleet, msgspec.json.format(msgspec.json.encode(fleet)))

    def cluster(self) -> ClusterStatus | None:
        """Read where everything runs; None if it does not run, or has not answered yet."""
        return _read(self._cluster, ClusterStatus)

    def publish(self, cluster: ClusterStatus) -> None:
        """Write cluster.json, whole or not at all."""
        write_privately(self._cluster, msgspec.json.format(msgspec.json.encode(cluster)))

    def unpublish(self) -> None:
        """Remove cluster.json: nothing runs here any more."""
        self._cluster.unlink(missing_ok=True)

    def write_env(self, variables: Mapping[str, str]) -> None:
        """Write the variables with which tools find the fleet, for a shell to read."""
        lines = (f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        write_privately(self.env_file, "".join(lines).encode())

    def supervisor(self) -> int | None:
        """Give the id of the process that holds the lock; None if it is free."""
        try:
            handle = os.open(self._lock, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.read(handle, 32).decode().strip()
            return int(said) if said else None
        else:
            return None
        finally:
            os.close(handle)

    def lock(self) -> "Lock":
        """Become the supervisor of this folder; AlreadyRunning if there is one."""
        self.path.mkdir(parents=True, exist_ok=True)
        return Lock(self._lock, self)


class Lock:
    """The supervisor's lock. The system frees it when this process ends, however it ends."""

    def __init__(self, path: Path, folder: Folder) -> None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        for _ in range(int(_LOCK_PATIENCE_S / _PAUSE_S)):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE_S)
        else:
            os.close(handle)
            raise AlreadyRunning(
                f"a fleet runs in {folder.path} already (supervisor {folder.supervisor()}); "
                f"stop it with: kafscale cluster stop --data {shlex.quote(str(folder.path))}"
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._handle = handle

    def close(self) -> None:
        """Free the lock."""
        os.ftruncate(self._handle, 0)
        os.close(self._handle)


def write_privately(path: Path, content: bytes) -> None:
    """Put a file in place in one step, readable by its owner only."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    draft.replace(path)


def _read(path: Path, kind: type[_Kind]) -> _Kind | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as bad:
        raise LocalError(f"{path}: not what kafscale wrote there: {bad}") from bad
