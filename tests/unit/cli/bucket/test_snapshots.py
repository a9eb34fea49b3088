"""`kafscale snapshots`: what is typed and what is printed."""

import json
from pathlib import Path

import pytest

from kafscale.cli.main import main
from kafscale.spark.bucket import Bucket
from kafscale.spark.source import pins
from tests.unit.spark.topics import Topic


@pytest.fixture
def store(tmp_path: Path) -> str:
    topic = Topic(tmp_path / "objects")
    topic.flush(0, [b"x"] * 3)
    topic.flush(1, [b"y"])
    Topic(tmp_path / "objects", "others")
    return topic.url


def test_snapshots_are_taken_listed_and_released(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["snapshots", "list", "--store", store]) == 0
    assert capsys.readouterr().out == ""
    words = ["take", "model-7", "--store", store, "--topic", "orders", "--keep", "30d", "--json"]
    assert main(["snapshots", *words]) == 0
    taken = json.loads(capsys.readouterr().out)
    assert (taken["name"], taken["offsets"], taken["topics"]) == ("model-7", 4, ["orders"])
    assert main(["snapshots", "take", "all", "--store", store]) == 0
    capsys.readouterr()
    assert main(["snapshots", "list", "--store", store]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["name", "taken", "expires", "state", "offsets", "topics"]
    assert [line[0] for line in lines[1:]] == ["all", "model-7"]
    assert [line[3:] for line in lines[1:]] == [
        ["kept", "4", "orders,", "others"],
        ["kept", "4", "orders"],
    ]
    found = pins.read(Bucket(store), "model-7")
    assert found.expires_ms - found.created_ms == 30 * 24 * 3600 * 1000
    assert main(["snapshots", "release", "model-7", "--store", store]) == 0
    assert main(["snapshots", "release", "all", "--store", store]) == 0
    assert main(["snapshots", "list", "--store", store]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["take", "x", "--keep", "soon"], 2, "--keep: expected something like 7d"),
        (["take", "x", "--keep", "0d"], 2, "--keep"),
        (["take", "x", "--keep", "99999999d"], 2, "--keep: expected something like 7d"),
        (["take", "x", "--topic", "missing"], 1, "there is no topic 'missing'"),
        (["take", "../x"], 1, "../x"),
        (["release", "x"], 1, "there is no snapshot 'x'"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    store: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, complaint: str
) -> None:
    assert main(["snapshots", *words, "--store", store]) == code
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_a_name_is_used_once(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshots", "take", "x", "--store", store]) == 0
    assert main(["snapshots", "take", "x", "--store", store]) == 1
    assert "already: release it first" in capsys.readouterr().err
