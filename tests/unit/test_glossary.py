"""docs/glossary.md holds: what it names exists, and a class name means one thing."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support import syntax

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src/kafscale"
PAGE: Final = (ROOT / "docs/glossary.md").read_text("utf-8")
WORDS, _, SHARED = PAGE.partition("## Classes that share a name")
MESSAGES: Final = tuple(f"wire/{name}/messages/" for name in ("kafka", "pulsar", "fluvio"))

# Names that are still defined in several modules. This list only shrinks.
STILL_DOUBLE: Final[frozenset[str]] = frozenset()


def rows(text: str) -> list[list[str]]:
    """The rows of all tables, without their heads."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    return [row for row in cells if row[0] not in ("word", "name")]


def defined_names(module: Path) -> Iterator[str]:
    """Public classes and type aliases of a module."""
    for node in syntax.parse(module.read_text("utf-8")).body:
        match node:
            case ast.ClassDef(name=name):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name.isupper():
                    continue  # a constant
            case _:
                continue
        if name[:1].isupper():
            yield name


def modules_by_name() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for module in sorted(PACKAGE.rglob("*.py")):
        path = module.relative_to(PACKAGE).as_posix()
        if not path.startswith(MESSAGES):
            for name in set(defined_names(module)):
                found[name].append(path)
    return found


DOUBLE: Final = {name: paths for name, paths in modules_by_name().items() if len(paths) > 1}


@pytest.mark.parametrize("row", rows(WORDS), ids=lambda row: row[0])
def test_what_a_word_points_to_exists(row: list[str]) -> None:
    path, *classes = re.findall(r"`([^`]+)`", row[2])
    place = ROOT / path if path.endswith(".md") else PACKAGE / path
    assert place.exists()
    if classes:
        assert set(classes) <= set(defined_names(place))


def test_a_word_stands_in_one_row() -> None:
    words = [word for row in rows(WORDS) for word in row[0].split(", ")]
    assert sorted(words) == sorted(set(words))


def test_a_class_name_means_one_thing() -> None:
    allowed = {row[0].strip("`") for row in rows(SHARED)}
    unexpected = {n: p for n, p in DOUBLE.items() if n not in allowed | STILL_DOUBLE}
    assert unexpected == {}


def test_shared_names_are_listed_with_their_modules_and_a_reason() -> None:
    for name, modules, reason in rows(SHARED):
        assert re.findall(r"`([^`]+)`", modules) == DOUBLE[name.strip("`")]
        assert reason


def test_names_that_are_no_longer_double_leave_the_list() -> None:
    assert sorted(STILL_DOUBLE - DOUBLE.keys()) == []
