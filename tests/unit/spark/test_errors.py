"""Our errors are told without the way they came, but only where Spark tells them."""

import os
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from kafscale.model.errors import InvalidRequest
from kafscale.spark.errors import plain_text, rows_without_traceback, without_traceback

SWITCH = "SPARK_HIDE_TRACEBACK"


@pytest.fixture
def in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__spec__ = SimpleNamespace(name="pyspark.daemon")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setenv(SWITCH, "")


@without_traceback
def fail(error: Exception) -> None:
    raise error


@rows_without_traceback
def fail_late(error: Exception) -> Iterator[int]:
    yield 1
    raise error


@pytest.mark.usefixtures("in_a_worker")
def test_our_errors_come_without_traceback() -> None:
    with pytest.raises(InvalidRequest):
        fail(InvalidRequest("no"))
    assert os.environ[SWITCH] == "1"


@pytest.mark.usefixtures("in_a_worker")
def test_so_do_those_that_come_while_rows_are_read() -> None:
    rows = fail_late(InvalidRequest("no"))
    assert next(rows) == 1
    assert os.environ[SWITCH] == ""
    with pytest.raises(InvalidRequest):
        next(rows)
    assert os.environ[SWITCH] == "1"


@pytest.mark.usefixtures("in_a_worker")
def test_mistakes_of_our_own_keep_theirs() -> None:
    with pytest.raises(ValueError, match="oops"):
        fail(ValueError("oops"))
    assert os.environ[SWITCH] == ""


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "")
    with pytest.raises(InvalidRequest):
        fail(InvalidRequest("no"))
    assert os.environ[SWITCH] == ""


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to plan: "
            "kafscale.spark.source.plan.options.BadOption: store: which bucket?\n SQLSTATE: 38000",
            "store: which bucket?",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "x.py", line 1\nkafscale.model.errors.CorruptObject: a/b: bad checksum',
            "a/b: bad checksum",
        ),
        (
            "[UNRESOLVED_COLUMN] no `nope`. SQLSTATE: 42703; line 1 pos 7;\n'Project ['nope]\n+- x",
            "[UNRESOLVED_COLUMN] no `nope`. SQLSTATE: 42703; line 1 pos 7",
        ),
        ("it broke\n\nJVM stacktrace:\norg.apache", "it broke"),
    ],
)
def test_what_spark_found_wrong_is_told_without_its_stack(found: str, told: str) -> None:
    assert plain_text(found) == told
