"""Requests of transactions and of share groups, for the table of what Apache Kafka asks leave for.

Next door: the table (access_table.py).
"""

from collections.abc import Callable
from typing import Any

from kafscale.wire.kafka.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    end_txn,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    txn_offset_commit,
)
from kafscale.wire.kafka.schema import Message

Requests = dict[str, tuple[int, Callable[[str], Message]]]

TOPIC_ID = b"the-topic-itself"  # `with_topic_id` puts the true one in its place
_TRANSACTION: Any = ("x", 7, 0)  # transactional id, producer id and epoch


def transactional_requests(topic: str, group: str) -> Requests:
    """Of a producer that no broker knows."""
    rows = [add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [0])]
    absent = [add_partitions_to_txn.AddPartitionsToTxnTopic("absent", [0])]
    offsets = [
        txn_offset_commit.TxnOffsetCommitRequestTopic(
            topic, [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7)]
        )
    ]
    return {
        "AddPartitionsToTxn": (
            3,
            lambda _: add_partitions_to_txn.AddPartitionsToTxnRequest(*_TRANSACTION, rows),
        ),
        "AddPartitionsToTxn, absent topic": (
            3,
            lambda _: add_partitions_to_txn.AddPartitionsToTxnRequest(*_TRANSACTION, absent),
        ),
        "AddPartitionsToTxn, both": (
            3,
            lambda _: add_partitions_to_txn.AddPartitionsToTxnRequest(*_TRANSACTION, rows + absent),
        ),
        "AddOffsetsToTxn": (
            3,
            lambda _: add_offsets_to_txn.AddOffsetsToTxnRequest(*_TRANSACTION, group),
        ),
        "EndTxn": (3, lambda _: end_txn.EndTxnRequest(*_TRANSACTION)),
        "TxnOffsetCommit": (
            3,
            lambda _: txn_offset_commit.TxnOffsetCommitRequest("x", group, 7, 0, topics=offsets),
        ),
    }


def share_requests(topic: str, group: str) -> Requests:
    """Of a member that no broker knows, of a group that there is not."""
    named = describe_share_group_offsets.ShareOffsetsTopic(topic, [0])
    fetched = [share_fetch.ShareFetchTopic(TOPIC_ID, [share_fetch.ShareFetchPartition(0)])]
    acknowledged = [
        share_acknowledge.AcknowledgeTopic(TOPIC_ID, [share_acknowledge.AcknowledgePartition(0)])
    ]
    altered = alter_share_group_offsets.AlteredShareTopic(
        topic, [alter_share_group_offsets.AlteredSharePartition(0, 0)]
    )
    return {
        "ShareGroupHeartbeat": (
            1,
            lambda _: share_group_heartbeat.ShareGroupHeartbeatRequest(
                "shared", "absent", 7, subscribed_topic_names=[topic]
            ),
        ),
        "ShareGroupDescribe": (
            1,
            lambda _: share_group_describe.ShareGroupDescribeRequest(
                [group], include_authorized_operations=True
            ),
        ),
        "ShareFetch": (
            1,
            lambda name: share_fetch.ShareFetchRequest(
                "shared", name.ljust(22, "A"), 0, 10, 1, max_records=1, topics=fetched
            ),
        ),
        "ShareAcknowledge": (
            1,
            lambda name: share_acknowledge.ShareAcknowledgeRequest(
                "shared", name.ljust(22, "B"), 1, topics=acknowledged
            ),
        ),
        "DescribeShareGroupOffsets": (
            0,
            lambda _: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
                [describe_share_group_offsets.ShareOffsetsGroup("shared", [named])]
            ),
        ),
        "DescribeShareGroupOffsets of all topics": (
            0,
            lambda _: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
                [describe_share_group_offsets.ShareOffsetsGroup("shared", None)]
            ),
        ),
        "AlterShareGroupOffsets": (
            0,
            lambda _: alter_share_group_offsets.AlterShareGroupOffsetsRequest("shared", [altered]),
        ),
        "DeleteShareGroupOffsets": (
            0,
            lambda _: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
                "shared", [delete_share_group_offsets.DeletedShareTopic(topic)]
            ),
        ),
    }


def with_topic_id(request: Message, topic_id: bytes) -> Message:
    """The request with the id that a broker has given the topic."""
    for row in getattr(request, "topics", None) or ():
        if getattr(row, "topic_id", None) == TOPIC_ID:
            row.topic_id = topic_id
    return request
