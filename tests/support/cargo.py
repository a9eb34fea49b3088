"""A Rust program, built on demand with crates from crates.io."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.maven import CACHE, Unavailable

# A build takes less than two minutes of CPU. Tests with one need as much more time of their own.
_BUILD_WITHIN_S: Final = 600.0
BUILD_AND_TEST_S: Final = _BUILD_WITHIN_S + 300.0
# Rust's openssl takes the library of the machine, which takes minutes to build.
_ENVIRONMENT: Final = {"OPENSSL_NO_VENDOR": "1"}
_refusals: dict[Path, str] = {}  # each process tries once


def rust_program(sources: Path, name: str) -> str:
    """The program of a package, built at the first call. Raises Unavailable."""
    return str(built(sources, environment=_ENVIRONMENT) / "debug" / name)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone among all processes of the tests."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder(sources: Path) -> Path:
    return CACHE / "rust" / sources.name


def _mark(sources: Path, *options: str) -> Path:
    """The file that says that a package was built from these files with these options."""
    files = sorted(path for path in sources.rglob("*") if path.is_file())
    contents = b"".join(path.read_bytes() for path in files) + " ".join(options).encode()
    return _folder(sources) / f"{hashlib.sha256(contents).hexdigest()[:12]}.txt"


def is_built(sources: Path, *options: str) -> bool:
    """Whether a package was built from these files with these options."""
    return _mark(sources, *options).exists()


def built(
    sources: Path, *options: str, environment: Mapping[str, str] | None = None, cargo: str = "cargo"
) -> Path:
    """The folder of what a package was built to.

    A build that takes too long is ended; the next one goes on where it was. The package is built
    from a copy, because cargo writes beside it which versions it has found.
    """
    program = shutil.which(cargo)
    if program is None:
        raise Unavailable(f"{cargo} is not installed")
    folder, done = _folder(sources), _mark(sources, *options)
    target = folder / "target"
    with locked(folder):
        if done in _refusals:
            raise Unavailable(_refusals[done])
        if not done.exists():
            shutil.copytree(sources, folder / "package", dirs_exist_ok=True)
            command = [program, "build", "--quiet", "--target-dir", str(target), *options]
            try:
                _build(command, folder / "package", {**os.environ, **(environment or {})})
            except Unavailable as reason:
                _refusals[done] = str(reason)
                raise
            done.write_text("built\n")
    return target


def _build(command: list[str], package: Path, environment: dict[str, str]) -> None:
    try:
        run = subprocess.run(
            command,
            cwd=package,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_BUILD_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"cargo did not end within {_BUILD_WITHIN_S:.0f} s") from None
    # A fault in our source is ours. A crate that cannot be fetched or built is not.
    if run.returncode and f"could not compile `{package.parent.name}" not in run.stderr:
        raise Unavailable(f"cargo build: {run.stderr[-1000:]}")
    if run.returncode:
        raise RuntimeError(f"cargo build:\n{run.stderr}")
