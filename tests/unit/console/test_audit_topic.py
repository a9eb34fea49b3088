"""The copy of the activity in a topic: in order, again after a refusal, and bounded."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from kafscale.admin.records.sending import PlacedRecord, SentRecord
from kafscale.console import audit_topic
from kafscale.console.activity import ActivityLog
from kafscale.console.audit_topic import AuditTopic
from kafscale.tasks import Tasks
from kafscale.testing.clock import ManualClock


class Brokers:
    """Take records, but for those whose turn it is to be refused."""

    def __init__(self, refused: int = 0) -> None:
        self.refused = refused
        self.taken: list[str] = []
        self.all_taken = asyncio.Event()

    async def send(self, records: Sequence[PlacedRecord]) -> list[SentRecord]:
        if self.refused:
            self.refused -= 1
            return [SentRecord(None, None, "no leader")] * len(records)
        self.taken += [msgspec.json.decode(one.value or b"")["action"] for one in records]
        self.all_taken.set()
        return [SentRecord(0, at) for at in range(len(records))]


@asynccontextmanager
async def running(audit: AuditTopic) -> AsyncIterator[None]:
    tasks = Tasks()
    tasks.spawn(audit.run(), "audit")
    try:
        yield
    finally:
        await tasks.aclose()


@pytest.mark.parametrize("refused", [0, 2])
async def test_every_line_of_the_activity_is_sent_once_and_in_order(
    refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_topic, "_AGAIN_S", 0.0)
    brokers = Brokers(refused)
    audit = AuditTopic(brokers.send)
    activity = ActivityLog(ManualClock(), audit.put)
    for action in ("log_in", "create_topic", "delete_topic"):
        activity.note("admin", "127.0.0.1", action, "orders", "ok", "1")
    async with running(audit), asyncio.timeout(30):
        await brokers.all_taken.wait()
    assert brokers.taken == ["log_in", "create_topic", "delete_topic"]
    assert audit.lost == 0


async def test_what_waits_is_bounded_and_the_oldest_go() -> None:
    brokers = Brokers()
    audit = AuditTopic(brokers.send)
    activity = ActivityLog(ManualClock(), audit.put)
    for number in range(audit_topic.MOST_WAITING + 7):
        activity.note("", "127.0.0.1", str(number), "", "wrong", "1")
    assert audit.lost == 7
    async with running(audit), asyncio.timeout(30):
        await brokers.all_taken.wait()
    assert (brokers.taken[0], len(brokers.taken)) == ("7", audit_topic.MOST_WAITING)
