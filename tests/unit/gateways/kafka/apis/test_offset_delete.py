from typing import Any

import pytest

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafscale.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafscale.wire.kafka.messages.sync_group import SyncGroupRequest
from tests.unit.gateways.kafka.caller import Caller

UNKNOWN_TOPIC, NOT_COORDINATOR, INVALID_GROUP, NOT_EMPTY, NOT_FOUND, SUBSCRIBED = (
    3,
    16,
    24,
    68,
    69,
    86,
)
READS_T = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"


async def delete(caller: Caller, group: str, *places: tuple[str, int]) -> Any:
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(partition)])
        for name, partition in places
    ]
    return await caller.ask(OffsetDeleteRequest(group, topics), 0)


def codes(answer: Any) -> list[int]:
    assert answer.error_code == 0
    return [row.error_code for topic in answer.topics for row in topic.partitions]


async def committed(broker: InProcessBroker) -> set[tuple[str, int]]:
    return set(await broker.engine.offsets.committed("g"))


@pytest.fixture
async def group(broker: InProcessBroker, caller: Caller) -> None:
    for name in ("t", "u"):
        await caller.create(name, 2)
    wishes = [OffsetCommit(name, at, 5) for name in ("t", "u") for at in (0, 1)]
    await broker.engine.offsets.commit("g", wishes)


async def work(caller: Caller, kind: str = "consumer", metadata: bytes = READS_T) -> None:
    """Make it a group of one member."""
    joined = await caller.ask(
        JoinGroupRequest(
            "g", 10_000, 10_000, "", None, kind, [JoinGroupRequestProtocol("range", metadata)]
        ),
        3,
    )
    assert joined.error_code == 0
    synced = await caller.ask(SyncGroupRequest("g", joined.generation_id, joined.member_id), 3)
    assert synced.error_code == 0


@pytest.mark.usefixtures("group")
async def test_a_group_without_members_loses_what_is_named(
    broker: InProcessBroker, caller: Caller
) -> None:
    answer = await delete(caller, "g", ("t", 0), ("u", 1), ("t", 0))
    assert codes(answer) == [0, 0, 0]
    assert await committed(broker) == {("t", 1), ("u", 0)}
    assert codes(await delete(caller, "g", ("t", 0))) == [0], "there is nothing any more"


@pytest.mark.usefixtures("group")
async def test_what_does_not_exist_is_unknown(broker: InProcessBroker, caller: Caller) -> None:
    answer = await delete(caller, "g", ("t", 2), ("missing", 0), ("t", 1))
    assert codes(answer) == [UNKNOWN_TOPIC, UNKNOWN_TOPIC, 0]
    assert len(await committed(broker)) == 3


@pytest.mark.usefixtures("group")
async def test_a_group_at_work_keeps_the_topics_it_reads(
    broker: InProcessBroker, caller: Caller
) -> None:
    await work(caller)
    answer = await delete(caller, "g", ("t", 0), ("u", 0))
    assert codes(answer) == [SUBSCRIBED, 0]
    assert await committed(broker) == {("t", 0), ("t", 1), ("u", 1)}


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(("kind", "metadata"), [("connect", READS_T), ("consumer", b"?")])
async def test_a_group_whose_reading_is_not_understood_keeps_everything(
    broker: InProcessBroker, caller: Caller, kind: str, metadata: bytes
) -> None:
    await work(caller, kind, metadata)
    assert (await delete(caller, "g", ("u", 0))).error_code == NOT_EMPTY
    assert len(await committed(broker)) == 4


async def test_an_unknown_group_is_not_found(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t", 1)
    assert (await delete(caller, "missing", ("t", 0))).error_code == NOT_FOUND
    assert (await delete(caller, "", ("t", 0))).error_code == INVALID_GROUP
    assert (await broker.engine.groups.list()) == []
