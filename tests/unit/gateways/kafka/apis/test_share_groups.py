"""Share groups through the door: sessions, records and decisions, what tools ask."""

from typing import Any

import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kafscale.wire.kafka.messages.alter_share_group_offsets import (
    AlteredSharePartition,
    AlteredShareTopic,
    AlterShareGroupOffsetsRequest,
)
from kafscale.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafscale.wire.kafka.messages.delete_share_group_offsets import (
    DeletedShareTopic,
    DeleteShareGroupOffsetsRequest,
)
from kafscale.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafscale.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    ShareOffsetsGroup,
)
from kafscale.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafscale.wire.kafka.messages.list_groups import ListGroupsRequest
from kafscale.wire.kafka.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kafscale.wire.kafka.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from kafscale.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from kafscale.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.gateways.kafka.apis.test_offset_commit import codes, commit_request
from tests.unit.gateways.kafka.caller import Caller, make_batch

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP_RESOURCE = 32


async def configure(caller: Caller, name: str, value: str) -> int:
    resource = AlterConfigsResource(GROUP_RESOURCE, "g", [AlterableConfig(name, 0, value)])
    answer = await caller.ask(IncrementalAlterConfigsRequest([resource]), 1)
    return int(answer.responses[0].error_code)


@pytest.fixture
async def topic_id(broker: InProcessBroker, caller: Caller) -> bytes:
    """A topic with two batches of three records, and a group that begins with the first."""
    created = await caller.create("t")
    for number in (0, 3):
        values = [b"%d" % (number + at) for at in range(3)]
        assert (await caller.produce("t", make_batch(*values))).error_code == 0
    assert await configure(caller, "share.auto.offset.reset", "earliest") == 0
    return bytes(created.topic_id)


class Sharer:
    """A member of group g that reads partition 0 of one topic."""

    def __init__(self, caller: Caller, topic_id: bytes, member: str = "m") -> None:
        self.caller, self.topic_id, self.member, self.epoch = caller, topic_id, member, 0

    async def fetch(self, *acks: tuple[int, int, int], **fields: Any) -> Any:
        """The whole answer."""
        part = ShareFetchPartition(0, [AcknowledgementBatch(a, b, [kind]) for a, b, kind in acks])
        request = ShareFetchRequest(
            "g",
            self.member,
            fields.pop("epoch", self.epoch),
            topics=[ShareFetchTopic(self.topic_id, [part])],
            **{"max_wait_ms": 200, "min_bytes": 1, "max_records": 500, **fields},
        )
        self.epoch += 1
        return await self.caller.ask(request, 2)

    async def take(self, *acks: tuple[int, int, int], **fields: Any) -> list[tuple[int, int, int]]:
        """The records that the member gets, and which delivery it is."""
        answer = await self.fetch(*acks, **fields)
        assert answer.error_code == 0, answer
        rows = [row for topic in answer.responses for row in topic.partitions]
        assert all(row.error_code == row.acknowledge_error_code == 0 for row in rows), rows
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for row in rows
            for one in row.acquired_records
        ]

    async def acknowledge(
        self, first: int, last: int, *types: int, epoch: int | None = None, renews: bool = False
    ) -> int:
        """The error code, of the request or of the partition."""
        part = AcknowledgePartition(0, [AcknowledgementBatch(first, last, list(types))])
        request = ShareAcknowledgeRequest(
            "g",
            self.member,
            self.epoch if epoch is None else epoch,
            renews,
            [AcknowledgeTopic(self.topic_id, [part])],
        )
        answer = await self.caller.ask(request, 2)
        if answer.error_code:
            return int(answer.error_code)
        self.epoch += 1
        return int(answer.responses[0].partitions[0].error_code)


async def test_a_member_gets_whole_batches_and_decides_about_records(
    caller: Caller, topic_id: bytes
) -> None:
    sharer = Sharer(caller, topic_id)
    assert await sharer.take() == [(0, 5, 1)]
    assert await sharer.acknowledge(0, 2, ACCEPT, RELEASE, REJECT) == 0
    assert await sharer.take((3, 5, ACCEPT)) == [(1, 1, 2)]


async def test_a_member_can_ask_for_an_exact_number_of_records(
    caller: Caller, topic_id: bytes
) -> None:
    sharer = Sharer(caller, topic_id)
    assert await sharer.take(max_records=4, share_acquire_mode=1) == [(0, 3, 1)]
    assert await sharer.take(max_records=4) == [(4, 5, 1)]


async def test_an_answer_has_one_batch_whatever_the_limit_and_no_more_than_the_limit(
    caller: Caller, topic_id: bytes
) -> None:
    sharer, size = Sharer(caller, topic_id), len(make_batch(b"0", b"1", b"2"))
    assert await sharer.take(max_bytes=1) == [(0, 2, 1)]
    assert await sharer.take((0, 2, RELEASE), max_bytes=2 * size - 1) == [(0, 2, 2)]
    assert await sharer.take((0, 2, RELEASE), max_bytes=2 * size) == [(0, 2, 3), (3, 5, 1)]


async def test_records_of_a_connection_that_ends_go_to_another_member(
    broker: InProcessBroker, caller: Caller, topic_id: bytes
) -> None:
    async with Caller(broker.port) as other:
        assert await Sharer(other, topic_id, "first").take() == [(0, 5, 1)]
        assert await Sharer(caller, topic_id, "second").take() == []
    second = Sharer(caller, topic_id, "third")
    assert await second.take(max_wait_ms=20_000) == [(0, 5, 1)]


async def test_a_session_that_ends_hands_back_what_was_not_acknowledged(
    caller: Caller, topic_id: bytes
) -> None:
    first = Sharer(caller, topic_id, "first")
    assert await first.take() == [(0, 5, 1)]
    assert await first.take((0, 3, ACCEPT), epoch=-1) == []
    assert await Sharer(caller, topic_id, "second").take() == [(4, 5, 1)]


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ((0, 6, (ACCEPT,)), ErrorCode.INVALID_RECORD_STATE),
        ((9, 9, (ACCEPT,)), ErrorCode.INVALID_RECORD_STATE),
        ((0, 2, (ACCEPT, ACCEPT)), ErrorCode.INVALID_REQUEST),
        ((0, 0, (5,)), ErrorCode.INVALID_REQUEST),
        ((0, 0, (-1,)), ErrorCode.INVALID_REQUEST),
        ((0, 0, ()), ErrorCode.INVALID_REQUEST),
        ((2, 0, (ACCEPT,)), ErrorCode.INVALID_REQUEST),
        ((-5, -1, (ACCEPT,)), ErrorCode.INVALID_REQUEST),
        ((0, 2**62, (ACCEPT,)), ErrorCode.INVALID_RECORD_STATE),
        ((0, 0, (RENEW,)), ErrorCode.INVALID_REQUEST),  # without the mark of such requests
    ],
)
async def test_decisions_that_cannot_be_are_refused_and_nothing_of_them_counts(
    caller: Caller, topic_id: bytes, batch: tuple[int, int, tuple[int, ...]], code: ErrorCode
) -> None:
    sharer = Sharer(caller, topic_id)
    await sharer.take()
    first, last, types = batch
    assert await sharer.acknowledge(first, last, *types) == code
    assert await sharer.acknowledge(0, 5, ACCEPT) == 0


async def test_a_lock_is_renewed_by_a_request_that_says_so(caller: Caller, topic_id: bytes) -> None:
    sharer = Sharer(caller, topic_id)
    await sharer.take()
    assert await sharer.acknowledge(0, 5, RENEW, renews=True) == 0
    assert await configure(caller, "share.renew.acknowledge.enable", "false") == 0
    assert await sharer.acknowledge(0, 5, RENEW, renews=True) == ErrorCode.INVALID_REQUEST


async def test_requests_of_a_session_come_in_their_order(caller: Caller, topic_id: bytes) -> None:
    sharer = Sharer(caller, topic_id)
    answer = await sharer.fetch(epoch=7)
    assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    sharer.epoch = 0
    assert await sharer.acknowledge(0, 0, 1) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    await sharer.take()
    answer = await sharer.fetch(epoch=7)
    assert answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    answer = await sharer.fetch((0, 0, ACCEPT), epoch=0)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("group", "member"), [("", "m"), (None, "m"), ("g", ""), ("g", None)])
async def test_a_session_has_a_group_and_a_member(
    caller: Caller, group: str | None, member: str | None
) -> None:
    for request in (ShareFetchRequest(group, member), ShareAcknowledgeRequest(group, member, 1)):
        assert (await caller.ask(request, 2)).error_code in (
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_GROUP_ID,
        )


async def test_a_topic_and_a_partition_that_do_not_exist_get_their_error(
    caller: Caller, topic_id: bytes
) -> None:
    answer = await Sharer(caller, b"x" * 16).fetch()
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    topics = [ShareFetchTopic(topic_id, [ShareFetchPartition(7)])]
    request = ShareFetchRequest("g", "m", 0, max_records=5, topics=topics)
    answer = await caller.ask(request, 2)
    code = answer.responses[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def beat(caller: Caller, epoch: int = 0, member: str = "m", *names: str) -> Any:
    request = ShareGroupHeartbeatRequest("g", member, epoch, None, list(names) or None)
    return await caller.ask(request, 1)


@pytest.mark.parametrize(
    "request_",
    [
        ShareGroupHeartbeatRequest("", "m", 0, None, ["t"]),
        ShareGroupHeartbeatRequest("g", "", 0, None, ["t"]),
        ShareGroupHeartbeatRequest("g", "m", 0, "", ["t"]),
        ShareGroupHeartbeatRequest("g", "m", 0),
        ShareGroupHeartbeatRequest("g", "m", -2),
    ],
)
async def test_heartbeats_that_no_correct_client_sends_are_refused(
    caller: Caller, request_: ShareGroupHeartbeatRequest
) -> None:
    assert (await caller.ask(request_, 1)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_group_id_belongs_to_one_type_of_groups(caller: Caller, topic_id: bytes) -> None:
    joined = await beat(caller, 0, "m", "t")
    assert (joined.error_code, joined.assignment.topic_partitions[0].topic_id) == (0, topic_id)
    other = ConsumerGroupHeartbeatRequest(
        "g", "n", 0, None, None, 1000, ["t"], None, None, topic_partitions=[]
    )
    assert (await caller.ask(other, 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    commit = commit_request("g", {"t": {0: 1}})
    assert await codes(caller, commit, 8) == [("t", 0, ErrorCode.GROUP_ID_NOT_FOUND)]
    listed = await caller.ask(ListGroupsRequest(types_filter=["Share"]), 5)
    assert [(row.group_id, row.group_state, row.group_type) for row in listed.groups] == [
        ("g", "Stable", "share")
    ]
    described = (await caller.ask(ShareGroupDescribeRequest(["g", "absent"]), 1)).groups
    assert [row.error_code for row in described] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert described[0].members[0].assignment.topic_partitions[0].topic_name == "t"
    assert (await caller.ask(commit_request("classic", {"t": {0: 1}}), 8)).topics
    late = ShareGroupHeartbeatRequest("classic", "m", 0, None, ["t"])
    assert (await caller.ask(late, 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_tools_see_and_set_the_start_offset_of_a_group_without_members(
    caller: Caller, topic_id: bytes
) -> None:
    async def start() -> tuple[int, int]:
        request = DescribeShareGroupOffsetsRequest([ShareOffsetsGroup("g", None)])
        (group,) = (await caller.ask(request, 1)).groups
        assert group.error_code == 0
        if not group.topics:
            return -1, -1
        row = group.topics[0].partitions[0]
        return row.start_offset, row.lag

    alter = AlterShareGroupOffsetsRequest(
        "g", [AlteredShareTopic("t", [AlteredSharePartition(0, 1), AlteredSharePartition(9, 1)])]
    )
    delete = DeleteShareGroupOffsetsRequest("g", [DeletedShareTopic("t"), DeletedShareTopic("u")])
    assert (await caller.ask(alter, 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    joined = await beat(caller, 0, "m", "t")
    sharer = Sharer(caller, topic_id)
    await sharer.take()
    assert await sharer.acknowledge(0, 0, ACCEPT) == 0
    assert await sharer.acknowledge(2, 3, ACCEPT) == 0
    assert await start() == (1, 3)
    assert (await caller.ask(alter, 0)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert (await beat(caller, -1)).member_epoch == -1
    assert joined.member_epoch > 0
    await sharer.take(epoch=-1)
    altered = (await caller.ask(alter, 0)).responses[0].partitions
    assert [row.error_code for row in altered] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await start() == (1, 5), "what was accepted beyond it counts no more"
    sharer.epoch = 0
    assert await sharer.take() == [(1, 5, 1)]
    deleted = (await caller.ask(delete, 0)).responses
    assert [row.error_code for row in deleted] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await start() == (-1, -1)


async def test_records_of_a_share_group_count_for_the_quota_of_their_client(
    broker: InProcessBroker, caller: Caller, topic_id: bytes
) -> None:
    entity = [EntityData("client-id", "tests")]
    quota = EntryData(entity, [OpData("consumer_byte_rate", 1.0)])
    assert (await caller.ask(AlterClientQuotasRequest([quota]), 1)).entries[0].error_code == 0
    answer = await Sharer(caller, topic_id).fetch()
    assert answer.throttle_time_ms > 0


async def test_settings_of_a_group_are_checked_and_shown(caller: Caller) -> None:
    assert await configure(caller, "share.delivery.count.limit", "3") == 0
    for name, value in (
        ("share.delivery.count.limit", "11"),
        ("share.delivery.count.limit", "many"),
        ("share.auto.offset.reset", "by_duration:1h"),
        ("share.isolation.level", "none"),
        ("no.such.setting", "1"),
    ):
        assert await configure(caller, name, value) == ErrorCode.INVALID_CONFIG
    assert await configure(caller, "share.auto.offset.reset", "by_duration:P1DT2H") == 0
    resource = DescribeConfigsResource(GROUP_RESOURCE, "g")
    (result,) = (await caller.ask(DescribeConfigsRequest([resource]), 4)).results
    shown = {row.name: row.value for row in result.configs}
    assert shown["share.delivery.count.limit"] == "3"
    assert shown["share.record.lock.duration.ms"] == "30000"
