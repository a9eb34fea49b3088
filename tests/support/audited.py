"""Lines of a broker's audit file. A thread of the broker writes them, so they may come late."""

import json
import time
from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any, Final

_WITHIN_S: Final = 30.0


def lines(file: Path, kind: str, *fields: str) -> list[tuple[Any, ...]]:
    """The values of some fields, of all lines of one kind."""
    rows = map(json.loads, file.read_text().splitlines())
    return [tuple(row[field] for field in fields) for row in rows if row["kind"] == kind]


def wait_for_line(file: Path, kind: str, **wanted: Hashable | Collection[str]) -> None:
    """Wait until the file has a line of this kind with these values."""
    deadline = time.monotonic() + _WITHIN_S
    while tuple(wanted.values()) not in (found := lines(file, kind, *wanted)):
        assert time.monotonic() < deadline, f"no line {kind} {wanted} among {found}"
        time.sleep(0.02)
