"""What `kafscale segments` prints of a topic that shares its logs with others."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kafscale.admin.bucket import topic_lookup
from kafscale.cli import main
from kafscale.log.formats import keys
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from tests.unit.admin.shared_builder import LOGS, SharedInMemory, size_of, two_topics

Run = Callable[..., tuple[int, str]]


@pytest.fixture
async def made() -> SharedInMemory:
    return await two_topics()


@pytest.fixture
def run(
    made: SharedInMemory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    @asynccontextmanager
    async def opened(config: Config) -> AsyncIterator[ObjectStore]:
        yield made.store

    monkeypatch.setattr(topic_lookup, "opened", opened)

    def run(*words: str) -> tuple[int, str]:
        code = main.main(["segments", *words])
        return code, capsys.readouterr().out

    return run


def rows(run: Run, *words: str) -> list[tuple[str, int, int, str, int, int, int, int]]:
    names = ("log", "lane", "partition", "kind", "first", "last", "records", "bytes")
    lines = map(json.loads, run("list", *words, "--json")[1].splitlines())
    return [tuple(line[name] for name in names) for line in lines]


def test_a_list_has_the_topics_lanes_and_no_others(run: Run) -> None:
    assert rows(run, "clicks") == [
        ("@shared/0", 0, 0, "history", 0, 4, 5, size_of(0, 5)),
        ("@shared/0", 0, 0, "flush", 5, 6, 2, size_of(5, 2)),
        ("@shared/1", 1, 3, "flush", 0, 5, 6, size_of(0, 6)),
    ]
    assert [row[:6] for row in rows(run, "views")] == [
        ("@shared/0", 2, 0, "history", 0, 3),
        ("@shared/0", 2, 0, "flush", 4, 4),
    ]


def test_a_list_of_one_partition_has_its_lane_only(run: Run) -> None:
    assert [row[:3] for row in rows(run, "clicks", "-p", "3")] == [("@shared/1", 1, 3)]
    assert rows(run, "clicks", "-p", "2") == []  # its records were deleted
    code, out = run("list", "clicks", "-p", "0")
    assert (code, out.split()[:3]) == (0, ["log", "lane", "partition"])


def test_verify_reads_every_log_that_has_a_lane_of_the_topic(run: Run) -> None:
    told = json.loads(run("verify", "clicks", "--json")[1])
    assert (told["logs"], told["segments"], told["records"], told["problems"]) == (2, 3, 21, [])
    told = json.loads(run("verify", "clicks", "-p", "1", "--json")[1])
    assert (told["logs"], told["segments"], told["records"]) == (1, 1, 6)


def test_inspect_shows_all_lanes_or_those_of_a_topic(run: Run) -> None:
    key = keys.segment(LOGS[0], 12)
    whole = json.loads(run("inspect", key, "--json")[1])["batches"]
    assert [row["lane"] for row in whole] == [0, 2]
    found = json.loads(run("inspect", key, "--topic", "views", "--json")[1])["batches"]
    assert [(row["partition"], row["lane"], row["first"]) for row in found] == [(0, 2, 4)]
    code, out = run("inspect", keys.segment(LOGS[1], 0), "--topic", "views")
    assert (code, "lane" in out) == (0, False)


def test_inspect_reads_what_was_dealt_out(run: Run) -> None:
    code, out = run("inspect", keys.allotment("default/@shared", 1), "--json")
    assert (code, json.loads(out)) == (0, {"logs": 2, "next": 6})
