"""Reading partitions of the upstream: batches from a place on, and where a log begins and ends."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafscale.proxy.upstream.cluster import Upstream, UpstreamRefused
from kafscale.proxy.upstream.link import UpstreamLost
from kafscale.records.batch import walk
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kafscale.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST: Final = -2
LATEST: Final = -1
BLOCK_BYTES: Final = 1 << 20
_BY_NAME: Final = 12  # the last version of Fetch that names topics
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        # A leader that was elected just now does not know yet what all replicas have.
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class Block(NamedTuple):
    """Whole batches of a physical partition, one behind the other."""

    data: memoryview
    start: int  # the place that was asked for; the first batch may begin before it
    end: int  # the place behind the last batch
    high_watermark: int
    log_start: int


async def fetch_block(
    upstream: Upstream,
    topic: str,
    partition: int,
    place: int,
    *,
    most_bytes: int = BLOCK_BYTES,
    wait_ms: int = 0,
    purpose: str = "read",
) -> Block:
    """Batches from a place on; none if it is the end. Raises UpstreamRefused, UpstreamLost."""
    leader = await upstream.leader(topic, partition)
    link = await upstream.link(leader.node, purpose)
    row = FetchPartition(partition, -1, place, partition_max_bytes=most_bytes)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=most_bytes,
        topics=[FetchTopic(topic, partitions=[row])],
    )
    answer = await link.ask(request, FetchResponse, link.version_of(FetchRequest, _BY_NAME))
    if answer.error_code or not answer.responses or not answer.responses[0].partitions:
        raise UpstreamLost(f"Fetch was answered with error {answer.error_code}")
    found = answer.responses[0].partitions[0]
    await check(upstream, topic, partition, found.error_code)
    data = memoryview(bytes(0) if found.records is None else found.records)  # type: ignore[arg-type]
    end, used = place, 0
    for at, header in walk(data):
        end, used = header.next_offset, at + header.size
    return Block(data[:used], place, end, found.high_watermark, found.log_start_offset)


async def list_offset(upstream: Upstream, topic: str, partition: int, which: int) -> int:
    """Where a physical log begins or ends. Raises UpstreamRefused, UpstreamLost."""
    leader = await upstream.leader(topic, partition)
    link = await upstream.link(leader.node, "offsets")
    row = ListOffsetsPartition(partition, -1, which)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [row])])
    answer = await link.ask(request, ListOffsetsResponse)
    found = answer.topics[0].partitions[0]
    await check(upstream, topic, partition, found.error_code)
    return found.offset


async def list_offsets(
    upstream: Upstream, places: Iterable[tuple[str, int]], which: int
) -> dict[tuple[str, int], int]:
    """The same for many partitions at once; those without a leader now are left out."""
    by_node: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
    for topic, partition in places:
        leader = upstream.known_leader(topic, partition)
        if leader is not None:
            rows = by_node.setdefault(leader.node, {}).setdefault(topic, [])
            rows.append(ListOffsetsPartition(partition, -1, which))
    found: dict[tuple[str, int], int] = {}
    for node, topics in by_node.items():
        link = await upstream.link(node, "offsets")
        asked = [ListOffsetsTopic(topic, rows) for topic, rows in topics.items()]
        answer = await link.ask(ListOffsetsRequest(topics=asked), ListOffsetsResponse)
        for topic_row in answer.topics:
            for row in topic_row.partitions:
                if not row.error_code:
                    found[topic_row.name, row.partition_index] = row.offset
                elif row.error_code in _TRY_AGAIN:
                    await upstream.refresh(topic_row.name)
    return found


async def check(upstream: Upstream, topic: str, partition: int, code: int) -> None:
    """Raise what an error code of a partition means; the upstream is asked anew who leads it."""
    if not code:
        return
    if code in _TRY_AGAIN:
        await upstream.refresh(topic)
        raise UpstreamLost(f"{topic}-{partition}: {ErrorCode(code).name}")
    raise UpstreamRefused(code, f"{topic}-{partition}")
