"""Packages from PyPI by name and version, in environments of their own.

Clients of other ages cannot live in the environment of the tests: each gets a folder in the
project's cache. Next door: the programs that run there (python/).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.maven import CACHE, Unavailable


def python_with(*packages: str) -> str:
    """A Python like ours in which these packages are installed."""

    def make(folder: Path) -> None:
        _uv("venv", "--python", sys.executable, str(folder / "venv"))
        _uv("pip", "install", "--python", str(folder / "venv" / "bin" / "python"), *packages)

    return str(_folder("venv", packages, make) / "venv" / "bin" / "python")


def folder_with(*packages: str) -> str:
    """A folder with nothing but these packages, for an interpreter that is not ours."""

    def make(folder: Path) -> None:
        target = str(folder / "packages")
        _uv(
            "pip", "install", "--python", sys.executable, "--no-deps", "--target", target, *packages
        )

    return str(_folder("packages", packages, make) / "packages")


def _folder(kind: str, packages: tuple[str, ...], make: Callable[[Path], None]) -> Path:
    stamp = hashlib.sha256(" ".join((sys.version, *packages)).encode()).hexdigest()[:12]
    folder = CACHE / "pypi" / f"{kind}-{stamp}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done.txt").exists():
            shutil.rmtree(folder / kind, ignore_errors=True)
            make(folder)
            (folder / "done.txt").write_text("\n".join(packages) + "\n")
    return folder


def _uv(*words: str) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise Unavailable("uv is not installed")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [uv, "--quiet", *words], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    if run.returncode:
        raise Unavailable(f"uv {words[0]}: {run.stderr[-1000:]}")
