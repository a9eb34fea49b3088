import pytest

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.model.errors import MetadataUnavailable
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.unit.gateways.kafka.caller import Caller

Wanted = dict[str, list[int]] | None
Row = tuple[str, int, int, int, str | None, int]  # topic, partition, offset, epoch, note, error


def fetch_request(group: str, wanted: Wanted, version: int) -> OffsetFetchRequest:
    if version >= 8:
        several = None
        if wanted is not None:
            several = [OffsetFetchRequestTopics(*row) for row in wanted.items()]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=several)])
    topics = None if wanted is None else [OffsetFetchRequestTopic(*row) for row in wanted.items()]
    return OffsetFetchRequest(group, topics)


async def ask(caller: Caller, group: str, wanted: Wanted, version: int) -> tuple[int, list[Row]]:
    """The error of the group as a whole, and all rows."""
    answer = await caller.ask(fetch_request(group, wanted, version), version)
    if version >= 8:
        (answer,) = answer.groups
        assert answer.group_id == group
    return answer.error_code, [
        (
            topic.name,
            row.partition_index,
            row.committed_offset,
            row.committed_leader_epoch,
            row.metadata,
            row.error_code,
        )
        for topic in answer.topics
        for row in topic.partitions
    ]


async def commit(broker: InProcessBroker, group: str, *wishes: OffsetCommit) -> None:
    assert not any(await broker.engine.offsets.commit(group, wishes))


@pytest.mark.parametrize("version", range(9))
async def test_every_version_gives_what_was_committed_and_minus_one_for_the_rest(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await caller.create("t", 3)
    await commit(broker, "g", OffsetCommit("t", 2, 7, 4, "note"), OffsetCommit("t", 0, 5))
    epoch = 4 if version >= 5 else -1
    assert await ask(caller, "g", {"t": [2, 1, 0, 9], "missing": [0]}, version) == (
        0,
        [
            ("t", 2, 7, epoch, "note", 0),
            ("t", 1, -1, -1, "", 0),
            ("t", 0, 5, -1, "", 0),
            ("t", 9, -1, -1, "", 0),
            ("missing", 0, -1, -1, "", 0),
        ],
    )


@pytest.mark.parametrize("group", ["unknown", "", "g" * 1001])
@pytest.mark.parametrize("version", range(9))
async def test_an_unknown_group_has_committed_nothing(
    caller: Caller, version: int, group: str
) -> None:
    await caller.create("t")
    assert await ask(caller, group, {"t": [0]}, version) == (0, [("t", 0, -1, -1, "", 0)])


@pytest.mark.parametrize("version", range(2, 9))
async def test_null_means_all_partitions_that_a_group_has_committed(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    for topic in ("a", "b", "gone"):
        await caller.create(topic, 2)
    await commit(
        broker,
        "g",
        OffsetCommit("b", 1, 3),
        OffsetCommit("a", 0, 1),
        OffsetCommit("gone", 0, 1),
        OffsetCommit("a", 1, 2),
    )
    await commit(broker, "other", OffsetCommit("b", 0, 9))
    await caller.delete("gone")
    assert await ask(caller, "g", None, version) == (
        0,
        [("a", 0, 1, -1, "", 0), ("a", 1, 2, -1, "", 0), ("b", 1, 3, -1, "", 0)],
    )
    assert await ask(caller, "missing", None, version) == (0, [])
    assert await ask(caller, "g", {}, version) == (0, [])


async def test_several_groups_are_answered_in_the_order_asked_for(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await commit(broker, "a", OffsetCommit("t", 0, 1))
    await commit(broker, "b", OffsetCommit("t", 0, 2))
    topics = [OffsetFetchRequestTopics("t", [0])]
    groups = [OffsetFetchRequestGroup(name, topics=topics) for name in "bca"]
    answer = await caller.ask(OffsetFetchRequest(groups=groups, require_stable=True), 8)
    assert [
        (group.group_id, group.error_code, group.topics[0].partitions[0].committed_offset)
        for group in answer.groups
    ] == [("b", 0, 2), ("c", 0, -1), ("a", 0, 1)]


async def test_a_partition_asked_for_twice_is_answered_once(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await commit(broker, "g", OffsetCommit("t", 0, 1))
    assert await ask(caller, "g", {"t": [0, 0]}, 7) == (0, [("t", 0, 1, -1, "", 0)])


@pytest.mark.parametrize("version", [1, 2, 7, 8])
async def test_a_sick_metadata_store_is_something_to_come_back_after(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    await caller.create("t")
    await commit(broker, "g", OffsetCommit("t", 0, 1))

    async def refuse(*_: object) -> None:
        raise MetadataUnavailable("planned")

    again = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with monkeypatch.context() as patch:
        patch.setattr(broker.engine.offsets._metadata, "find", refuse)
        code, rows = await ask(caller, "g", {"t": [0]}, version)
    assert code == (again if version >= 2 else 0)
    assert rows == [("t", 0, -1, -1, "", again)]
    assert (await ask(caller, "g", {"t": [0]}, version))[1][0][2] == 1


async def test_an_offset_that_cannot_be_read_is_an_error_not_a_beginning(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    raw = [Put(keys.group_offset("g", "t", 0), b"{}")]
    await broker.engine.offsets._metadata.commit(raw)
    code, rows = await ask(caller, "g", {"t": [0]}, 8)
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert rows == [("t", 0, -1, -1, "", ErrorCode.KAFKA_STORAGE_ERROR)]
