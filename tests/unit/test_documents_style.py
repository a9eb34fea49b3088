"""Documents can be read: lines that fit, links and paths that lead somewhere, plain words."""

import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kafscale.model.configs.topic_configs import TOPIC_CONFIGS

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src/kafscale"
DOCUMENTS: Final = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
WIDTH: Final = 100
WRITTEN_BY_A_PROGRAM: Final = ("docs/clients.md", "docs/ecosystem.md")

# Say who: the broker, the writer, the client, the job.
RIDDLES: Final = re.compile(
    r"\b(whoever|nobody|somebody|anybody|for ever|so-manieth|how manyth|strangers|of ours)\b",
    re.IGNORECASE,
)

DECISIONS: Final = ROOT / "docs/decisions"
FLAGS: Final = re.MULTILINE | re.DOTALL
FENCE: Final = re.compile(r"^```.*?^```$", FLAGS)
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
OF_OTHER_PROJECTS: Final = {"test/service.py"}
NAMED_PATH: Final = re.compile(r"`([a-z_]+/[\w./-]+\.(?:py|md|txt|yaml|yml))`")


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def prose(document: Path) -> str:
    """The text without its code blocks."""
    return FENCE.sub("", document.read_text("utf-8"))


def wide_lines(document: Path) -> list[str]:
    return [
        line
        for line in prose(document).splitlines()
        if len(line) > WIDTH
        and not line.startswith(("|", "    ", "<!--"))
        and max(map(len, line.split())) < WIDTH - 20  # a long link cannot be broken
    ]


def anchors(document: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in headings}


def remarks(module: Path) -> Iterator[str]:
    """Comments, docstrings and other texts over several lines."""
    for token in tokenize.generate_tokens(io.StringIO(module.read_text("utf-8")).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.string.startswith('"""')
        ):
            yield token.string


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_prose_is_wrapped(document: Path) -> None:
    if not name(document).startswith(WRITTEN_BY_A_PROGRAM):
        assert wide_lines(document) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_to_pages_and_headings(document: Path) -> None:
    broken = []
    for link in LINK.findall(prose(document)):
        if link.startswith(("https://", "http://")):
            continue
        path, _, heading = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        is_page = target.suffix == ".md" and target.exists()
        if not target.exists() or (heading and is_page and heading not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_files_that_are_named_exist(document: Path) -> None:
    roots = (ROOT, PACKAGE, document.parent)
    named = set(NAMED_PATH.findall(prose(document))) - OF_OTHER_PROJECTS
    assert [path for path in sorted(named) if not any((r / path).exists() for r in roots)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_sentences_name_the_actor(document: Path) -> None:
    assert RIDDLES.findall(prose(document)) == []


def test_the_floor_plan_is_that_of_the_import_contracts() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    plan = re.search(r"^```text\nfloor\n(.*?)^```$", page, FLAGS)
    assert plan
    floors = [line.split(maxsplit=1)[1] for line in plan[1].splitlines()]
    built = [[room for room in layer.split(" | ") if room[0] != "("] for layer in layers]
    assert [floor.split(" | ") for floor in floors] == built
    rows = re.findall(r"^\| \*\*(\w+)\*\* \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(room for rooms in built for room in rooms)


def test_topic_settings_that_count_are_on_the_page() -> None:
    _, section = (ROOT / "docs/connecting.md").read_text("utf-8").split("## Topic settings")
    honoured = {setting.name for setting in TOPIC_CONFIGS.values() if setting.honoured}
    assert sorted(setting for setting in honoured if f"`{setting}`" not in section) == []


def test_locks_of_a_broker_are_on_their_page() -> None:
    page = (ROOT / "docs/internals/locks.md").read_text("utf-8")
    rooms = ("engine", "gateways", "log", "metadata", "objects", "broker")
    locking = {
        module.relative_to(PACKAGE).as_posix()
        for room in rooms
        for module in (PACKAGE / room).rglob("*.py")
        if re.search(r"asyncio\.(Lock|Semaphore|Condition)\b", module.read_text("utf-8"))
    }
    assert sorted(path for path in locking if f"`{path}`" not in page) == []


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("0*.md")), ids=lambda page: page.stem)
def test_a_decision_has_number_status_and_date(page: Path) -> None:
    title, blank, status, date, *_ = page.read_text("utf-8").splitlines()
    assert title.startswith(f"# {int(page.name[:4])}. ")
    assert blank == ""
    assert re.fullmatch(r"Status: (accepted|superseded by \[?\d+.*)", status)
    assert re.fullmatch(r"Date: \d{4}-\d{2}-\d{2}", date)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_diagrams_are_of_a_known_kind(document: Path) -> None:
    for diagram in re.findall(r"^```mermaid\n(.*?)^```$", document.read_text("utf-8"), FLAGS):
        assert diagram.startswith(("flowchart ", "sequenceDiagram\n", "stateDiagram-v2\n"))
        assert ";" not in diagram  # ends a statement, also within a text


def test_comments_name_the_actor() -> None:
    found = [
        (module.relative_to(PACKAGE), word)
        for module in PACKAGE.rglob("*.py")
        for text in remarks(module)
        for word in RIDDLES.findall(text)
    ]
    assert found == []


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_tests_and_benchmarks_name_the_actor(folder: str) -> None:
    found = [
        (name(module), word)
        for module in (ROOT / folder).rglob("*.py")
        if module != Path(__file__)
        for word in RIDDLES.findall(module.read_text("utf-8").replace("_", " "))  # names, too
    ]
    assert found == []
