"""docs/ecosystem.md: written by what was seen, read to compare with what is seen."""

from pathlib import Path
from typing import Final

from tests.ecosystem.trials import TRIALS

PATH: Final = Path(__file__).resolve().parents[2] / "docs" / "ecosystem.md"
UNKNOWN: Final = "?"
WORKS: Final = "works"
FAILS: Final = "fails"

INTRODUCTION: Final = """\
# Ecosystem

Programs that people run on Kafka, tried against brokers with default settings. The programs keep
their own defaults, too. `make ecosystem` tries all of them and writes the table anew; `make test`
tries Kafka Streams, Kafka Connect and, where it is installed, Karapace. [Clients](clients.md) have
a page of their own, and so have the [tests of other projects](protocols/compat.md).

| program | what is tried | result |
|---|---|---|
"""


def load() -> dict[str, str]:
    """The results on the page, by the names of the tests."""
    lines = PATH.read_text("utf-8").splitlines() if PATH.exists() else []
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    said = {cells[0]: cells[-1] for cells in rows}
    return {test: said.get(trial.label, UNKNOWN) for test, trial in TRIALS.items()}


def text(results: dict[str, str], notes: str) -> str:
    rows = "".join(
        f"| {trial.label} | {trial.what} | {results[test]} |\n" for test, trial in TRIALS.items()
    )
    return INTRODUCTION + rows + "\n" + notes


def notes() -> str:
    """What stands below the table; people write it."""
    page = PATH.read_text("utf-8") if PATH.exists() else ""
    _, found, after = page.partition("\n## ")
    return "## " + after if found else ""


def save(results: dict[str, str]) -> None:
    PATH.write_text(text(results, notes()), "utf-8")
