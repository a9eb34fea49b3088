"""What the doctor prints."""

import json
from pathlib import Path

import pytest

from kafscale.cli import main


def test_a_bad_configuration_is_one_failed_line_and_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.main(["doctor", "--port", "x"]) == 2
    assert capsys.readouterr().out == (
        "fail  configuration --port: expected an integer from 0 to 65535, found 'x'\n"
    )


def test_every_line_can_be_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--port", "0", "--metrics-port", "0", "--data-dir", str(tmp_path / "new"), "--json"]
    code = main.main(["doctor", *words])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    subjects = [line["subject"] for line in lines]
    assert subjects == [
        "configuration", "clients", "metrics", "store", "metadata", "disk", "open files",
    ]  # fmt: skip
    assert code == (1 if "fail" in {line["verdict"] for line in lines} else 0)
