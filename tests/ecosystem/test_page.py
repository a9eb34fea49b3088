"""docs/ecosystem.md names every trial, and every result is one that was seen."""

import importlib
from pathlib import Path

from tests.ecosystem import page
from tests.ecosystem.trials import TRIALS


def test_the_page_is_whole() -> None:
    for module in sorted(Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(f"tests.ecosystem.{module.stem}")
    results = page.load()
    assert len(results) == len(TRIALS) > 0
    assert set(results.values()) == {page.WORKS}, "run `make ecosystem`"
    assert page.PATH.read_text("utf-8") == page.text(results, page.notes()), "run `make ecosystem`"
