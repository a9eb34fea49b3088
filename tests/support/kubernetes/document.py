"""The commands of docs/operating/kubernetes.md, as words."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/operating/kubernetes.md"
_PROGRAMS = ("docker", "helm", "kafscale", "kubectl")


def commands() -> list[list[str]]:
    """Every command of every block, in order; a pipe is two commands."""
    found = []
    for block in re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.split()[0] in _PROGRAMS:
                found += [shlex.split(part) for part in line.split(" | ")]
    return found


def kubectl(words: list[str]) -> tuple[str, list[str]]:
    """What kubectl is asked to do, and the rest, without the namespace."""
    rest = words[1:]
    if rest[0] == "-n":
        rest = rest[2:]
    return rest[0], rest[1:]


def option(words: list[str], name: str) -> str:
    """The value behind a flag."""
    return words[words.index(name) + 1]
