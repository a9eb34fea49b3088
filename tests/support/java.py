"""Java programs against jars from Maven Central.

In this room: compiling one source file and naming the command that runs it.
Next door: the jars (maven.py), the program that drives the Java client (java/Driver.java).
"""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.maven import CACHE, Unavailable, classpath

SOURCES = Path(__file__).parent / "java"
# The client wants a logger; a silent one, so that its words never mix with the program's.
SILENCE = "org.slf4j:slf4j-nop:1.7.36"


def compiled(source: Path, *coordinates: str) -> list[str]:
    """The command that runs the class named like the file, compiled against these coordinates."""
    javac = shutil.which("javac")
    if javac is None:
        raise Unavailable("a Java development kit is not installed")
    jars = classpath(*coordinates, SILENCE)
    stamp = hashlib.sha256(" ".join(coordinates).encode() + source.read_bytes()).hexdigest()[:12]
    folder = CACHE / "java" / f"{source.stem}-{stamp}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / f"{source.stem}.class").exists():
            _compile([javac, "-nowarn", "-cp", jars, "-d", str(folder), str(source)])
    return on_the_jvm(f"{folder}:{jars}", source.stem)


def on_the_jvm(jars: str, *words: str) -> list[str]:
    """The command that runs a class: little heap and a quick start, for what lives seconds."""
    java = shutil.which("java")
    if java is None:
        raise Unavailable("java is not installed")
    return [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, *words]


def _compile(command: list[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if run.returncode:
        raise RuntimeError(f"javac:\n{run.stderr}")
