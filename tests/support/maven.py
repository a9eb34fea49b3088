"""Jars from Maven Central by coordinates, kept in the project's cache folder.

In this room: a generated pom and one call of mvn per set of coordinates.
Next door: compiling and running against the jars (java.py, apache_kafka.py).
"""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"


class Unavailable(Exception):
    """What is needed from outside cannot be had here; the text says why."""


def classpath(*coordinates: str) -> str:
    """The jars of `group:artifact:version` coordinates with their runtime dependencies."""
    return f"{_folder(coordinates, alone=False)}/*"


def jars(*coordinates: str) -> list[str]:
    """The jars of these coordinates and of nothing else."""
    return sorted(str(path) for path in _folder(coordinates, alone=True).iterdir())


def _folder(coordinates: tuple[str, ...], *, alone: bool) -> Path:
    words = " ".join((*coordinates, *(["alone"] if alone else [])))
    folder = CACHE / "maven" / hashlib.sha256(words.encode()).hexdigest()[:12]
    jars, done = folder / "jars", folder / "done.txt"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(jars, ignore_errors=True)
            _copy(_pom(coordinates, alone), coordinates, folder, jars)
            done.write_text("\n".join(coordinates) + "\n")
    return jars


def _copy(pom: str, coordinates: tuple[str, ...], folder: Path, jars: Path) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Unavailable("mvn is not installed")
    (folder / "pom.xml").write_text(pom)
    command = [mvn, "-B", "-q", "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    if run.returncode:
        raise Unavailable(f"mvn could not get {', '.join(coordinates)}:\n{run.stdout[-2000:]}")


def _pom(coordinates: tuple[str, ...], alone: bool) -> str:
    wanted = ""
    without = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        "</exclusions>"
        if alone
        else ""
    )
    for coordinate in coordinates:
        group, artifact, version = map(escape, coordinate.split(":"))
        wanted += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{without}</dependency>\n"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion>\n"
        "<groupId>cache</groupId><artifactId>cache</artifactId><version>1</version>\n"
        f"<dependencies>\n{wanted}</dependencies></project>\n"
    )
