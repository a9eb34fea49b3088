"""`kafscale transactions` and Apache's tool, against a real broker and real producers."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.test_cli import refused, said
from tests.e2e.test_transactions import PARTITIONS, make_producer, make_topic, send
from tests.support.broker import KafscaleProcess


@pytest.fixture(scope="module")
def broker() -> Iterator[KafscaleProcess]:
    with KafscaleProcess() as process:
        yield process


def test_transactional_ids_are_listed_and_described(broker: KafscaleProcess) -> None:
    topic = make_topic(broker, "shown")
    done, still_open = make_producer(broker, "done"), make_producer(broker, "still-open")
    done.begin_transaction()
    send(done, topic, "a")
    done.commit_transaction(30)
    still_open.begin_transaction()
    send(still_open, topic, "x", "y", "z")

    listed = said(broker, "transactions", "list")
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [
        ["done", "CompleteCommit"],
        ["still-open", "Ongoing"],
    ]
    rows = said(broker, "transactions", "list", "--state", "Ongoing", "--json").splitlines()
    assert [json.loads(row)["transactional_id"] for row in rows] == ["still-open"]
    assert said(broker, "transactions", "list", "--older-than-ms", "3600000") == ""

    found = json.loads(said(broker, "transactions", "describe", "still-open", "--json"))
    assert found["state"] == "Ongoing"
    assert found["started_ms"]
    assert found["partitions"] == [[topic, number] for number in range(PARTITIONS)]
    text = said(broker, "transactions", "describe", "done", "still-open")
    assert text.startswith("id done  CompleteCommit  producer ")
    still_open.abort_transaction(30)

    assert "there is no such transactional id" in refused(
        broker, "transactions", "describe", "unheard-of"
    )
