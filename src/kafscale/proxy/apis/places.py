"""Where a virtual partition is, or which error a client gets instead."""

import asyncio
from typing import Final

from kafscale.proxy.apis.call import ProxyCall
from kafscale.proxy.coordination.topics import MappedTopic, Unmappable
from kafscale.proxy.partitions.partition import BatchRefused, PhysicalPartition, State
from kafscale.wire.kafka.errors import ErrorCode

_OPEN_S: Final = 20.0  # for a partition that is being opened


async def find_topic(call: ProxyCall, name: str) -> tuple[MappedTopic | None, int]:
    """A mapped topic, or why there is none: plain topics have leaders of their own."""
    try:
        mapped = await call.context.topics.find(name)
    except Unmappable:
        return None, ErrorCode.INVALID_PARTITIONS
    if mapped is None:
        is_there = name in call.context.upstream.topics
        return None, (
            ErrorCode.NOT_LEADER_OR_FOLLOWER if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    return mapped, ErrorCode.NONE


async def open_partition(
    call: ProxyCall, mapped: MappedTopic, number: int
) -> tuple[PhysicalPartition | None, int]:
    """The open partition of a virtual one, or why there is none."""
    if not mapped.has(number):
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    index = mapped.place(number).physical_partition
    partition = call.context.partitions.get(mapped, index)
    if partition is None:
        return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not partition.opened.done():
        try:
            async with asyncio.timeout(_OPEN_S):
                await asyncio.shield(partition.opened)
        except TimeoutError:
            return None, ErrorCode.LEADER_NOT_AVAILABLE
        except BatchRefused as problem:
            return None, problem.code
    if partition.state is State.CLOSED:
        return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    return partition, ErrorCode.NONE


async def epoch_error(call: ProxyCall, partition: PhysicalPartition, epoch: int) -> int:
    """What is wrong with the leader epoch that a client has."""
    upstream = call.context.upstream
    known = upstream.epoch(partition.topic, partition.index)
    if epoch > known >= 0:  # the client may have heard of a new leader at another proxy
        await upstream.refresh(partition.topic)
        known = upstream.epoch(partition.topic, partition.index)
    if epoch < 0 or known < 0 or epoch == known:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH
