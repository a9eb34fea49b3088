"""A Go program, built on demand with modules from the Go proxy."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.maven import CACHE, Unavailable


def go_program(sources: Path) -> str:
    """The program built of all files in a folder."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("go is not installed")
    contents = b"".join(path.read_bytes() for path in sorted(sources.iterdir()))
    program = CACHE / "go" / hashlib.sha256(contents).hexdigest()[:12]
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            # A quick build rather than a quick program; without C, which nothing needs.
            quickly = ["-gcflags=all=-l", "-ldflags=-s -w"]
            go_build([go, "build", *quickly, "-o", str(program), "."], sources)
    return str(program)


def go_build(command: list[str], sources: Path) -> None:
    """Run a command of go in the folder of a module. Raises Unavailable without the network."""
    env = {**os.environ, "CGO_ENABLED": "0"}
    run = subprocess.run(
        command, cwd=sources, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    # A module that cannot be fetched is the network's trouble; a fault in our source is ours.
    if run.returncode and "dial tcp" in run.stderr:
        raise Unavailable(f"go could not fetch its modules: {run.stderr[-1000:]}")
    if run.returncode:
        raise RuntimeError(f"go build:\n{run.stderr}")
