"""`kafscale groups` against a real broker and real members."""

import itertools
import json
import time
from collections.abc import Iterator

import pytest

from tests.e2e.test_cli import kafscale, refused, said
from tests.support.broker import KafscaleProcess
from tests.support.clients.confluent import ConfluentMember

PARTITIONS = 3
TRIES = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[KafscaleProcess]:
    with KafscaleProcess() as process:
        yield process


@pytest.fixture
def topic(broker: KafscaleProcess, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions with 10, 20 and 30 records; its name is also a group's."""
    name = f"{request.node.name[:150]}-{next(TRIES)}"  # a test that runs again needs another one
    said(broker, "topics", "create", name, "-p", str(PARTITIONS))
    for partition in range(PARTITIONS):
        lines = b"x\n" * 10 * (partition + 1)
        said(broker, "produce", name, "-p", str(partition), given=lines)
    return name


def described(broker: KafscaleProcess, group: str) -> dict[str, object]:
    found = json.loads(said(broker, "groups", "describe", group, "--json"))
    assert isinstance(found, dict)
    return found


def committed(broker: KafscaleProcess, group: str) -> dict[int, int]:
    rows = described(broker, group)["partitions"]
    assert isinstance(rows, list)
    return {row["partition"]: row["committed"] for row in rows}


def reset(broker: KafscaleProcess, group: str, *words: str) -> None:
    said(broker, "groups", "reset-offsets", group, *words, "--execute")


def drained(member: ConfluentMember, count: int) -> int:
    """Poll until so many records have come."""
    seen, deadline = 0, time.monotonic() + 120
    while seen < count:
        assert time.monotonic() < deadline, seen
        seen += len(member.poll())
    return seen


def test_what_is_furthest_behind_comes_first(broker: KafscaleProcess, topic: str) -> None:
    reset(broker, topic, "-t", topic, "--to-offset", "5")
    lines = said(broker, "groups", "describe", topic).splitlines()
    assert lines[0] == f"group {topic}  lag 45  Empty  members 0"
    assert [line.split()[1:5] for line in lines[2:]] == [
        ["2", "5", "30", "25"],
        ["1", "5", "20", "15"],
        ["0", "5", "10", "5"],
    ]
    reset(broker, "zz-further-behind", "-t", topic, "--to-earliest")
    listed = [json.loads(line) for line in said(broker, "groups", "list", "--json").splitlines()]
    found = {row["group"]: row for row in listed}
    assert found["zz-further-behind"] == {"group": "zz-further-behind", "state": "Empty", "lag": 60}
    lags = [row["lag"] for row in listed]
    assert lags == sorted(lags, reverse=True)


def test_members_are_shown_with_what_they_read_and_keep_their_offsets(
    broker: KafscaleProcess, topic: str
) -> None:
    reset(broker, topic, "-t", topic, "--to-earliest")
    member = ConfluentMember(broker.bootstrap, topic, topic)
    try:
        drained(member, 60)
        facts = described(broker, topic)
        assert facts["state"] == "Stable"
        rows = facts["partitions"]
        assert isinstance(rows, list)
        assert {row["partition"] for row in rows} == {0, 1, 2}
        assert len({row["member"] for row in rows} - {None}) == 1
        assert all(row["host"] for row in rows)
        assert len(facts["members"]) == 1  # type: ignore[arg-type]
        complaint = refused(
            broker, "groups", "reset-offsets", topic, "--all-topics", "--to-earliest", "--execute"
        )
        assert "Stable and has 1 members; stop them first" in complaint
        assert "not empty" in refused(broker, "groups", "delete", topic)
        complaint = refused(broker, "groups", "delete-offsets", topic, "-t", topic)
        assert "members of the group read this topic" in complaint
    finally:
        member.leave()
    assert committed(broker, topic) == {0: 10, 1: 20, 2: 30}
    assert described(broker, topic)["lag"] == 0


def test_nothing_is_changed_unless_told_so(broker: KafscaleProcess, topic: str) -> None:
    reset(broker, topic, "-t", topic, "--to-latest")
    planning = ("groups", "reset-offsets", topic, "--all-topics", "--to-earliest")
    for words in ([], ["--dry-run"]):
        shown = said(broker, *planning, *words)
        assert shown.splitlines()[-1] == "nothing was changed: --execute does it"
    assert committed(broker, topic) == {0: 10, 1: 20, 2: 30}
    rows = [json.loads(line) for line in said(broker, *planning, "--json").splitlines()]
    assert [(row["committed"], row["new"], row["done"]) for row in rows] == [
        (10, 0, False),
        (20, 0, False),
        (30, 0, False),
    ]


TARGETS = (
    (["--to-earliest"], {0: 0, 1: 0, 2: 0}),
    (["--to-latest"], {0: 10, 1: 20, 2: 30}),
    (["--to-offset", "15"], {0: 10, 1: 15, 2: 15}),
    (["--shift-by", "-3"], {0: 2, 1: 2, 2: 2}),
    (["--shift-by", "100"], {0: 10, 1: 20, 2: 30}),
    (["--to-datetime", "2001-01-01T00:00:00"], {0: 0, 1: 0, 2: 0}),
    (["--to-datetime", "2101-01-01T00:00:00+01:00"], {0: 10, 1: 20, 2: 30}),
    (["--by-duration", "1d"], {0: 0, 1: 0, 2: 0}),
    (["--by-duration", "PT0S"], {0: 10, 1: 20, 2: 30}),
)


def test_offsets_go_where_they_are_sent(broker: KafscaleProcess, topic: str) -> None:
    for words, expected in TARGETS:
        reset(broker, topic, "-t", topic, "--to-offset", "5")
        reset(broker, topic, "--all-topics", *words)
        assert committed(broker, topic) == expected, words


def test_some_partitions_move_and_others_stay(broker: KafscaleProcess, topic: str) -> None:
    reset(broker, topic, "-t", topic, "--to-offset", "5")
    reset(broker, topic, "-t", f"{topic}:0,2", "--to-offset", "7")
    assert committed(broker, topic) == {0: 7, 1: 5, 2: 7}


def test_some_offsets_are_deleted_and_others_stay(broker: KafscaleProcess, topic: str) -> None:
    deleting = ("groups", "delete-offsets", topic, "-t")
    reset(broker, topic, "-t", topic, "--to-offset", "5")
    lines = said(broker, *deleting, f"{topic}:0,2").splitlines()
    assert [line.split() for line in lines[1:]] == [[topic, "0", "5"], [topic, "2", "5"]]
    assert committed(broker, topic) == {1: 5}
    assert "committed nothing" in refused(broker, *deleting, f"{topic}:0")
    last = said(broker, *deleting, topic, "--json")
    assert json.loads(last) == {"topic": topic, "partition": 1, "committed": 5}
    assert "there is no such group" in refused(broker, "groups", "describe", topic)


def test_a_deleted_group_is_gone(broker: KafscaleProcess, topic: str) -> None:
    reset(broker, topic, "-t", topic, "--to-earliest")
    assert said(broker, "groups", "delete", topic) == ""
    assert "there is no such group" in refused(broker, "groups", "describe", topic)
    assert topic not in said(broker, "groups", "list")
    assert refused(broker, "groups", "delete", topic)


def test_what_makes_no_sense_is_said_in_one_line(broker: KafscaleProcess, topic: str) -> None:
    for words in (
        ["--to-earliest"],
        ["--to-earliest", "--all-topics", "-t", topic],
        ["-t", topic, "--to-datetime", "yesterday"],
        ["-t", topic, "--by-duration", "soon"],
        ["-t", f"{topic}:x", "--to-latest"],
        ["-t", topic],
        ["-t", topic, "--to-latest", "--to-earliest"],
        ["-t", topic, "--to-latest", "--execute", "--dry-run"],
    ):
        ran = kafscale(broker, "groups", "reset-offsets", "g", *words)
        assert ran.returncode == 2, words
        assert ran.stderr.count(b"\n") == 1
    assert "no partition 9" in refused(
        broker, "groups", "reset-offsets", "g", "-t", f"{topic}:9", "--to-latest"
    )
    assert "nothing is committed to shift" in refused(
        broker, "groups", "reset-offsets", "new", "-t", topic, "--shift-by", "1"
    )
    assert "committed nothing" in refused(
        broker, "groups", "reset-offsets", "new", "--all-topics", "--to-latest"
    )
