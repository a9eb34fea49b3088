"""Programs from the Debian archive, by package name."""

import fcntl
import os
import shutil
import subprocess
from typing import Final

from tests.support.maven import CACHE, Unavailable

_LOCK_S: Final = 120  # another program of this machine may be installing


def program(name: str, package: str | None = None) -> str:
    """The path of a program, installed with apt-get when it is missing and that is possible."""
    found = shutil.which(name)
    if found is not None:
        return found
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise Unavailable(f"{name} is not installed, and apt-get needs Debian and root")
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.which(name) is None:
            _apt(apt, "update")
            _apt(apt, "install", "--yes", "--no-install-recommends", package or name)
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"the package {package or name} brought no program {name}")
    return found


def _apt(apt: str, *arguments: str) -> None:
    run = subprocess.run(
        [apt, "-q", "-o", f"DPkg::Lock::Timeout={_LOCK_S}", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        timeout=_LOCK_S + 300,
        check=False,
    )
    if run.returncode:
        raise Unavailable(f"apt-get {arguments[0]}: {run.stderr[-1000:]}")
