import pytest

from kafscale.model.errors import MetadataUnavailable
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.gateways.kafka.caller import Caller

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def commit_request(
    group: str, topics: dict[str, dict[int, int]], metadata: str | None = "", **fields: object
) -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestTopic(
            name,
            [
                OffsetCommitRequestPartition(at, offset, 3, -1, metadata)
                for at, offset in partitions.items()
            ],
        )
        for name, partitions in topics.items()
    ]
    return OffsetCommitRequest(group, topics=rows, **fields)  # type: ignore[arg-type]


async def codes(
    caller: Caller, request: OffsetCommitRequest, version: int
) -> list[tuple[str, int, int]]:
    answer = await caller.ask(request, version)
    return [
        (topic.name, row.partition_index, row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    ]


@pytest.mark.parametrize("version", range(9))
async def test_every_version_commits_what_it_can_and_answers_row_by_row(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await caller.create("t", 2)
    request = commit_request("g", {"t": {0: 5, 1: 6, 2: 7}, "missing": {0: 1}}, "note")
    assert await codes(caller, request, version) == [
        ("t", 0, 0),
        ("t", 1, 0),
        ("t", 2, UNKNOWN),
        ("missing", 0, UNKNOWN),
    ]
    found = await broker.engine.offsets.committed("g")
    epoch = 3 if version >= 6 else -1
    assert {(at, row.offset, row.leader_epoch, row.metadata) for at, row in found.items()} == {
        (("t", 0), 5, epoch, "note"),
        (("t", 1), 6, epoch, "note"),
    }


async def test_null_is_an_empty_note(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t")
    assert await codes(caller, commit_request("g", {"t": {0: 5}}, None), 8) == [("t", 0, 0)]
    assert (await broker.engine.offsets.committed("g"))["t", 0].metadata == ""


@pytest.mark.parametrize(("size", "code"), [(4096, 0), (4097, 12)])
async def test_a_note_has_at_most_4096_bytes(caller: Caller, size: int, code: int) -> None:
    await caller.create("t")
    assert await codes(caller, commit_request("g", {"t": {0: 5}}, "x" * size), 8) == [
        ("t", 0, code)
    ]


@pytest.mark.parametrize(("group", "code"), [("", 24), ("g" * 1001, 24), ("g" * 1000, 0)])
@pytest.mark.parametrize("version", [0, 8])
async def test_a_group_has_a_name_of_up_to_1000_characters(
    caller: Caller, version: int, group: str, code: int
) -> None:
    await caller.create("t", 2)
    request = commit_request(group, {"t": {0: 5, 1: 5}})
    assert await codes(caller, request, version) == [("t", 0, code), ("t", 1, code)]


@pytest.mark.parametrize("member_id", ["", "unknown"])
@pytest.mark.parametrize("version", range(1, 9))
async def test_a_generation_of_a_group_that_never_was_is_refused(
    broker: InProcessBroker, caller: Caller, version: int, member_id: str
) -> None:
    await caller.create("t")
    request = commit_request(
        "g", {"t": {0: 5}}, generation_id_or_member_epoch=0, member_id=member_id
    )
    assert await codes(caller, request, version) == [("t", 0, ErrorCode.ILLEGAL_GENERATION)]
    assert await broker.engine.offsets.committed("g") == {}


async def test_a_fixed_name_for_a_member_makes_no_member(caller: Caller) -> None:
    await caller.create("t")
    request = commit_request("g", {"t": {0: 5}}, group_instance_id="me")
    assert await codes(caller, request, 8) == [("t", 0, 0)]


async def test_commits_of_one_connection_count_in_their_order(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t", 300)
    for offset in range(20):
        # In turning order, so that a part of an earlier request could overtake a later one.
        places = range(300) if offset % 2 else range(299, -1, -1)
        caller.send(commit_request("g", {"t": dict.fromkeys(places, offset)}), 8)
    for _ in range(20):
        assert {row.error_code for row in (await caller.answer()).topics[0].partitions} == {0}
    found = await broker.engine.offsets.committed("g")
    assert [row.offset for row in found.values()] == [19] * 300


async def test_committing_nothing_is_fine(caller: Caller) -> None:
    assert await codes(caller, commit_request("g", {}), 8) == []


async def test_a_sick_metadata_store_is_something_to_come_back_after(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.create("t")

    async def refuse(*_: object) -> None:
        raise MetadataUnavailable("planned")

    request = commit_request("g", {"t": {0: 5}})
    with monkeypatch.context() as patch:
        patch.setattr(broker.engine.offsets._metadata, "commit", refuse)
        assert await codes(caller, request, 8) == [("t", 0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    assert await codes(caller, request, 8) == [("t", 0, 0)]
