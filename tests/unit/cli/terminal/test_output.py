"""Columns, sizes, progress."""

import io
import sys

import pytest

from kafscale.admin.units import human_bytes
from kafscale.cli.terminal.output import counting, print_columns, print_line


def test_columns_are_aligned_with_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(("name", "count"), [("a", 5), ("longer", 1000), ("none", None)])
    assert capsys.readouterr().out == (
        "name    count\n"
        "a           5\n"
        "longer   1000\n"
        "none        -\n"
    )  # fmt: skip


def test_no_rows_are_headings_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(("name", "count"), [])
    assert capsys.readouterr().out == "name  count\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),
        (1536, "1.5 KiB"),
        (100 * 1024**2, "100 MiB"),
        (1024**3, "1 GiB"),
        (5000 * 1024**4, "5000 TiB"),
    ],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with counting("records", None, shown=True) as count:
        count(10)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


class Terminal(io.StringIO):
    """Somewhere people look."""

    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_on_stderr_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with counting("records to orders", 20, shown=True) as count:
        count(10)
    assert "records to orders" in terminal.getvalue()
    assert "10/20" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_names_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(("group",), [("\x1b[2Jgone\n",)])
    print_line("group \x1b]0;title\x07")
    assert capsys.readouterr().out == "group\n\\x1b[2Jgone\\n\ngroup \\x1b]0;title\\x07\n"
