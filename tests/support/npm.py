"""Packages from npm by name and version, beside the program that needs them."""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.maven import CACHE, Unavailable


def node_program(source: Path) -> list[str]:
    """The command that runs a program with the packages of the package.json beside it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("node and npm are not installed")
    wanted = source.with_name("package.json").read_bytes()
    stamp = hashlib.sha256(wanted + source.read_bytes()).hexdigest()[:12]
    folder = CACHE / "npm" / stamp
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / source.name).exists():
            (folder / "package.json").write_bytes(wanted)
            _install(npm, folder)
            shutil.copy(source, folder)
    return [node, str(folder / source.name)]


def _install(npm: str, folder: Path) -> None:
    command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    if run.returncode:
        raise Unavailable(f"npm install: {run.stderr[-1000:]}")
