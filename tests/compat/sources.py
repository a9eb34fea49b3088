"""Other projects' sources, by package name and checksum, kept in the project's cache folder.

Next door: building and running them (librdkafka.py, kafka_python.py).
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.maven import CACHE, Unavailable

FOLDER = CACHE / "compat"


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """A folder of the cache that only one process fills at a time."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def npm(package: str, folder: Path, sha256: str) -> Path:
    """The tarball of an npm package; nothing of it is installed or run."""
    program = shutil.which("npm")
    if program is None:
        raise Unavailable("npm is not installed")
    _run([program, "pack", package, "--silent"], folder)
    return _checked(folder, "*.tgz", sha256)


def pypi(package: str, folder: Path, sha256: str) -> Path:
    """The source archive of a Python package."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    name = package.partition("==")[0]
    _run([*command, "--no-deps", "--no-binary", name, package], folder)
    return _checked(folder, "*.tar.gz", sha256)


def unpack(archive: Path, prefix: str, folder: Path) -> None:
    """Everything under `prefix` of the archive, without the prefix."""
    with tarfile.open(archive) as opened:
        members = [member for member in opened if member.name.startswith(f"{prefix}/")]
        for member in members:
            member.name = member.name.removeprefix(f"{prefix}/")
        opened.extractall(folder, members, filter="data")


def build(command: list[str], folder: Path) -> None:
    """Run one step of a build; its output is shown when it fails."""
    _run(command, folder, RuntimeError)


def _checked(folder: Path, pattern: str, sha256: str) -> Path:
    [archive] = folder.glob(pattern)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        archive.unlink()
        raise RuntimeError(f"{archive.name} has the checksum {found}, not {sha256}")
    return archive


def _run(command: list[str], folder: Path, failure: type[Exception] = Unavailable) -> None:
    run = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if run.returncode:
        raise failure(f"{' '.join(command)} failed:\n{run.stdout[-3000:]}")
