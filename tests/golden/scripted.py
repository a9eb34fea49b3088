"""A broker that has learnt its lines: enough answers to make clients ask everything once.

Here: one thread per connection, one topic with one empty partition, a group of one member; every
request frame is kept as it came.
Never here: storage, correctness beyond what keeps a client talking.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable
from typing import Any, Final

from kafscale.wire.kafka import frame
from kafscale.wire.kafka.catalog import APIS
from kafscale.wire.kafka.messages import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_configs,
    describe_groups,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from kafscale.wire.kafka.schema import Message

TOPIC: Final = "golden"
TOPIC_ID: Final = bytes(range(16))
_MEMBER: Final = "member-1"
_HOST: Final = "127.0.0.1"


class ScriptedBroker:
    """Serves until closed; `frames` fills up as clients talk."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        broker = self

        class Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while head := self.rfile.read(4):
                    body = self.rfile.read(int.from_bytes(head, "big"))
                    broker.frames.append(head + body)
                    answer = broker.answer(memoryview(body))
                    if answer is None:
                        continue
                    try:
                        self.wfile.write(answer)
                    except ConnectionError:
                        return  # a client that has all it wanted does not wait

        self._server = socketserver.ThreadingTCPServer((_HOST, 0), Connection)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"{_HOST}:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: memoryview) -> bytes | None:
        asked = frame.read_request(body)
        request: Any = frame.read_body(asked, body)
        if isinstance(request, produce.ProduceRequest) and request.acks == 0:
            return None
        answer = _ANSWERS[type(request)](request, self.port)
        return b"".join(frame.response_frame(asked.correlation_id, answer, asked.version))


def _api_versions(_: Any, __: int) -> Message:
    rows = [api_versions.ApiVersion(a.key, a.versions.start, a.versions.stop - 1) for a in APIS]
    return api_versions.ApiVersionsResponse(api_keys=rows)


def _metadata(_: Any, port: int) -> Message:
    partition = metadata.MetadataResponsePartition(
        leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
    )
    return metadata.MetadataResponse(
        brokers=[metadata.MetadataResponseBroker(1, _HOST, port)],
        cluster_id="scripted",
        controller_id=1,
        topics=[
            metadata.MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        ],
    )


def _produce(request: Any, _: int) -> Message:
    return produce.ProduceResponse(
        [
            produce.TopicProduceResponse(
                topic.name,
                [produce.PartitionProduceResponse(one.index) for one in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: Any, _: int) -> Message:
    threading.Event().wait(0.05)  # an empty log: do not make the client spin
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [fetch.PartitionData(one.partition, records=b"") for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _list_offsets(request: Any, _: int) -> Message:
    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                topic.name,
                [
                    list_offsets.ListOffsetsPartitionResponse(one.partition_index, 0, [0], -1, 0, 0)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _find_coordinator(request: Any, port: int) -> Message:
    return find_coordinator.FindCoordinatorResponse(
        node_id=1,
        host=_HOST,
        port=port,
        coordinators=[
            find_coordinator.Coordinator(key, 1, _HOST, port) for key in request.coordinator_keys
        ],
    )


def _join(request: Any, _: int) -> Message:
    first = request.protocols[0]
    member = join_group.JoinGroupResponseMember(_MEMBER, request.group_instance_id, first.metadata)
    return join_group.JoinGroupResponse(
        generation_id=1,
        protocol_type=request.protocol_type,
        protocol_name=first.name,
        leader=_MEMBER,
        member_id=_MEMBER,
        members=[member],
    )


def _sync(request: Any, _: int) -> Message:
    return sync_group.SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=request.assignments[0].assignment if request.assignments else b"",
    )


def _offset_commit(request: Any, _: int) -> Message:
    return offset_commit.OffsetCommitResponse(
        topics=[
            offset_commit.OffsetCommitResponseTopic(
                topic.name,
                [
                    offset_commit.OffsetCommitResponsePartition(one.partition_index)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_fetch(request: Any, _: int) -> Message:
    groups = [
        offset_fetch.OffsetFetchResponseGroup(
            group.group_id,
            [
                offset_fetch.OffsetFetchResponseTopics(
                    topic.name,
                    [
                        offset_fetch.OffsetFetchResponsePartitions(index, -1, -1, "")
                        for index in topic.partition_indexes
                    ],
                )
                for topic in group.topics or []
            ],
        )
        for group in request.groups
    ]
    topics = [
        offset_fetch.OffsetFetchResponseTopic(
            topic.name,
            [
                offset_fetch.OffsetFetchResponsePartition(index, -1, -1, "")
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
    return offset_fetch.OffsetFetchResponse(topics=topics, groups=groups)


def _create_topics(request: Any, _: int) -> Message:
    return create_topics.CreateTopicsResponse(
        topics=[create_topics.CreatableTopicResult(topic.name) for topic in request.topics]
    )


def _delete_topics(request: Any, _: int) -> Message:
    names = request.topic_names or [topic.name for topic in request.topics]
    return delete_topics.DeleteTopicsResponse(
        responses=[delete_topics.DeletableTopicResult(name) for name in names]
    )


def _describe_configs(request: Any, _: int) -> Message:
    return describe_configs.DescribeConfigsResponse(
        results=[
            describe_configs.DescribeConfigsResult(0, None, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )


def _alter_configs(request: Any, _: int) -> Message:
    return alter_configs.AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(
                0, None, one.resource_type, one.resource_name
            )
            for one in request.resources
        ]
    )


def _create_partitions(request: Any, _: int) -> Message:
    return create_partitions.CreatePartitionsResponse(
        results=[create_partitions.CreatePartitionsTopicResult(one.name) for one in request.topics]
    )


def _describe_groups(request: Any, _: int) -> Message:
    return describe_groups.DescribeGroupsResponse(
        groups=[
            describe_groups.DescribedGroup(0, name, "Empty", "consumer") for name in request.groups
        ]
    )


def _delete_groups(request: Any, _: int) -> Message:
    return delete_groups.DeleteGroupsResponse(
        results=[delete_groups.DeletableGroupResult(name) for name in request.groups_names]
    )


def _epochs(request: Any, _: int) -> Message:
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic.topic,
                [
                    offset_for_leader_epoch.EpochEndOffset(0, one.partition, 0, 0)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


_ANSWERS: Final[dict[type[Message], Callable[[Any, int], Message]]] = {
    api_versions.ApiVersionsRequest: _api_versions,
    metadata.MetadataRequest: _metadata,
    produce.ProduceRequest: _produce,
    fetch.FetchRequest: _fetch,
    list_offsets.ListOffsetsRequest: _list_offsets,
    find_coordinator.FindCoordinatorRequest: _find_coordinator,
    join_group.JoinGroupRequest: _join,
    sync_group.SyncGroupRequest: _sync,
    heartbeat.HeartbeatRequest: lambda _, __: heartbeat.HeartbeatResponse(),
    leave_group.LeaveGroupRequest: lambda _, __: leave_group.LeaveGroupResponse(),
    offset_commit.OffsetCommitRequest: _offset_commit,
    offset_fetch.OffsetFetchRequest: _offset_fetch,
    create_topics.CreateTopicsRequest: _create_topics,
    delete_topics.DeleteTopicsRequest: _delete_topics,
    describe_configs.DescribeConfigsRequest: _describe_configs,
    alter_configs.AlterConfigsRequest: _alter_configs,
    create_partitions.CreatePartitionsRequest: _create_partitions,
    describe_groups.DescribeGroupsRequest: _describe_groups,
    delete_groups.DeleteGroupsRequest: _delete_groups,
    offset_for_leader_epoch.OffsetForLeaderEpochRequest: _epochs,
    list_groups.ListGroupsRequest: lambda _, __: list_groups.ListGroupsResponse(),
    init_producer_id.InitProducerIdRequest: lambda _, __: init_producer_id.InitProducerIdResponse(
        producer_id=1000
    ),
}
