"""Members of share groups get nothing of topics that they may not read, or may no longer read."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from kafscale.model.security.access import ResourceType
from kafscale.model.security.audit import AuditEvent
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    ShareOffsetsGroup,
    ShareOffsetsTopic,
)
from kafscale.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafscale.wire.kafka.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from kafscale.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from kafscale.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.authorizers import Denies
from tests.unit.gateways.kafka.caller import Caller, make_batch

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
OPEN, SECRET = "open", "secret"
_GROUP_RESOURCE = 32


class Leave:
    """What the client is denied just now."""

    def __init__(self) -> None:
        self.denied: set[str] = set()

    def is_denied(self, kind: ResourceType, name: str) -> bool:
        return kind is ResourceType.TOPIC and name in self.denied


@pytest.fixture
def leave() -> Leave:
    return Leave()


@pytest.fixture
async def broker(leave: Leave) -> AsyncIterator[InProcessBroker]:
    async with InProcessBroker(authorizer=Denies(leave.is_denied)) as started:
        yield started


@pytest.fixture
async def caller(broker: InProcessBroker) -> AsyncIterator[Caller]:
    async with Caller(broker.port) as connected:
        yield connected


@pytest.fixture
def denials(broker: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> list[AuditEvent]:
    heard: list[AuditEvent] = []
    monkeypatch.setattr(broker.connections._audit, "_write_line", heard.append)
    monkeypatch.setattr(broker.connections._audit, "_fields_of", lambda event: event)
    return heard


@pytest.fixture
async def topic_ids(caller: Caller) -> dict[str, bytes]:
    """Two topics with a record each, and a group that begins with the first."""
    made = {name: bytes((await caller.create(name)).topic_id) for name in (OPEN, SECRET)}
    for name in made:
        assert (await caller.produce(name, make_batch(b"x"))).error_code == 0
    earliest = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    resource = AlterConfigsResource(_GROUP_RESOURCE, "g", [earliest])
    answer = await caller.ask(IncrementalAlterConfigsRequest([resource]), 1)
    assert answer.responses[0].error_code == 0
    return made


async def fetch(caller: Caller, epoch: int, topics: Sequence[bytes] = ()) -> dict[bytes, Any]:
    """The answered partition of each topic."""
    rows = [ShareFetchTopic(one, [ShareFetchPartition(0)]) for one in topics]
    request = ShareFetchRequest("g", "m", epoch, 100, 1, topics=rows, max_records=500)
    answer = await caller.ask(request, 2)
    assert answer.error_code == 0, answer
    return {topic.topic_id: topic.partitions[0] for topic in answer.responses}


def is_refused(row: Any) -> bool:
    return row.error_code == TOPIC and not row.records and not row.acquired_records


async def test_a_session_that_goes_on_gives_nothing_of_a_topic_that_is_denied_now(
    leave: Leave, caller: Caller, topic_ids: dict[str, bytes]
) -> None:
    found = await fetch(caller, 0, [topic_ids[OPEN]])
    assert found[topic_ids[OPEN]].acquired_records
    assert topic_ids[SECRET] not in found
    # The member adds the topic while it may read it, and loses leave before it reads all.
    assert (await fetch(caller, 1, [topic_ids[SECRET]]))[topic_ids[SECRET]].acquired_records
    for name in topic_ids:
        assert (await caller.produce(name, make_batch(b"y"))).error_code == 0
    leave.denied = {SECRET}
    found = await fetch(caller, 2)
    assert found[topic_ids[OPEN]].acquired_records
    assert is_refused(found[topic_ids[SECRET]])
    # Naming it again changes nothing.
    found = await fetch(caller, 3, [topic_ids[SECRET]])
    assert is_refused(found[topic_ids[SECRET]])
    leave.denied = set()
    found = await fetch(caller, 4)
    rows = found[topic_ids[SECRET]].acquired_records
    assert (rows[0].first_offset, rows[-1].last_offset) == (0, 1), "what it had comes again"


async def test_denials_by_what_a_group_reads_are_in_the_audit_log(
    leave: Leave, caller: Caller, topic_ids: dict[str, bytes], denials: list[AuditEvent]
) -> None:
    joining = ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=[SECRET])
    assert (await caller.ask(joining, 1)).error_code == 0
    offsets = [ShareOffsetsGroup("g", [ShareOffsetsTopic(SECRET, [0])])]
    leave.denied = {SECRET}
    for request, version in (
        (joining, 1),
        (ShareGroupDescribeRequest(["g"]), 1),
        (DescribeShareGroupOffsetsRequest(offsets), 1),
    ):
        answer = await caller.ask(request, version)
        assert str(int(TOPIC)) in str(answer)
        assert [(one.kind, one.operation, one.resources) for one in denials] == [
            ("denied", "DESCRIBE", (SECRET,))
        ], request
        denials.clear()
