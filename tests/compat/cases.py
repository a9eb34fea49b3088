"""Which tests of other projects must pass: text files that only grow.

A line is a test's number, then what it needs: `noautocreate` (the scenario), `subtest=NAME`, or
`version=4.0.0.0` (the broker that the test takes ours for, where it expects what that one does),
`protocol=consumer` (the protocol of its consumer groups, where it is not the classic one),
`acls`, `mtls`, `scram` or `oidc` (a secured broker of that kind, see targets.py).
A star at its end: `make test` runs it too, not only `make compat`. What follows `#` is for people.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

HERE = Path(__file__).parent
STAR = " *"
SECURED = ("acls", "mtls", "scram", "oidc")


@dataclass(frozen=True, order=True)
class Case:
    """One run of librdkafka's test program."""

    number: str
    scenario: str = "default"
    subtest: str = ""
    idempotent: bool = False
    version: str = ""
    secured: str = ""
    protocol: str = "classic"

    @classmethod
    def read(cls, line: str) -> Self:
        number, *words = line.split()
        case = cls(number)
        for word in words:
            if word.startswith("subtest="):
                case = replace(case, subtest=word.removeprefix("subtest="))
            elif word.startswith("version="):
                case = replace(case, version=word.removeprefix("version="))
            elif word.startswith("protocol="):
                case = replace(case, protocol=word.removeprefix("protocol="))
            elif word in SECURED:
                case = replace(case, secured=word)
            elif word == "noautocreate":
                case = replace(case, scenario=word)
            else:
                raise ValueError(f"what is {word}? in: {line}")
        return case

    def __str__(self) -> str:
        words = [self.number]
        if self.scenario != "default":
            words.append(self.scenario)
        if self.secured:
            words.append(self.secured)
        if self.protocol != "classic":
            words.append(f"protocol={self.protocol}")
        if self.subtest:
            words.append(f"subtest={self.subtest}")
        return " ".join(words)


def lines(name: str) -> list[str]:
    """What a list names, without remarks."""
    read = (HERE / name).read_text().splitlines()
    return [line for line in (line.partition("#")[0].strip() for line in read) if line]


def cases(name: str, idempotent: bool = False, starred_only: bool = False) -> list[Case]:
    """The cases a list names."""
    return [
        replace(Case.read(line.removesuffix(STAR)), idempotent=idempotent)
        for line in lines(name)
        if not starred_only or line.endswith(STAR)
    ]


def unlisted() -> list[Case]:
    """The cases that the page of findings says do not pass."""
    return [Case.read(name) for name in _explained() if not name.startswith("`")]


def hollow() -> list[Case]:
    """The cases that the page of findings says test nothing of a broker."""
    return [Case.read(name.strip("`")) for name in _explained() if name.startswith("`")]


def _explained() -> list[str]:
    page = (HERE.parents[1] / "docs" / "protocols" / "compat.md").read_text()
    table = page.partition("## librdkafka: what does not pass")[2].partition("With idempotence")[0]
    rows = re.findall(r"^\| (`?\d{4}.*?) \|", table, re.MULTILINE)
    return [name for row in rows for name in row.split(", ")]
