"""A broker's log lines, and what happens when the output cannot take them."""

import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import structlog

from kafscale.broker.operating import log_output


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before: dict[str, Any] = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_full_disk_costs_lines_and_nothing_else(
    form: Literal["json", "text"], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("w") as output:
        monkeypatch.setattr(sys, "stderr", output)
        log_output.configure("info", form)
        with pytest.raises(OSError, match="No space left") as refused:
            print("x" * 100_000, file=output, flush=True)
        assert refused.value.errno == errno.ENOSPC
        log = structlog.get_logger()
        for number in range(1000):
            log.info("something_happened", number=number, text="x" * 100)
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space left"):
            output.close()


def test_a_closed_output_costs_lines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "log").open("w") as output:
        monkeypatch.setattr(sys, "stderr", output)
        log_output.configure("info", "json")
    structlog.get_logger().info("something_happened")


def test_lines_are_written_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "log").open("w") as output:
        monkeypatch.setattr(sys, "stderr", output)
        log_output.configure("info", "json")
        structlog.get_logger().debug("not_this")
        structlog.get_logger().info("this", number=1)
    assert (tmp_path / "log").read_text().startswith('{"number":1,"event":"this","level":"info",')


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_traceback_shows_no_locals(
    form: Literal["json", "text"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log_in(password: str) -> None:
        raise ValueError("no such user")

    with (tmp_path / "log").open("w") as output:
        monkeypatch.setattr(sys, "stderr", output)
        log_output.configure("debug", form)
        try:
            log_in("planted" + "-4711")
        except ValueError:
            structlog.get_logger().exception("request_failed")
    written = (tmp_path / "log").read_text()
    assert "no such user" in written
    assert "log_in" in written
    assert "planted-4711" not in written
