"""Offsets of consumer groups for virtual partitions; all else of groups passes as it is.

The upstream's coordinator decides whether a member may commit: it gets the commit with physical
partitions and places. What it accepts is written to the ledger with virtual ones.
"""

from collections.abc import Iterable
from typing import Final

from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall
from kafscale.proxy.coordination.offsets import GroupCommit, VirtualPartition
from kafscale.proxy.coordination.topics import MappedTopic, Unmappable
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_groups import DeleteGroupsResponse
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafscale.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
)
from kafscale.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_MOST_METADATA: Final = 4096  # as Kafka's offset.metadata.max.bytes
_GROUP_FROM: Final = 8  # the version of OffsetFetch that asks for several groups


async def _mapped(call: ProxyCall, names: Iterable[str]) -> dict[str, MappedTopic]:
    found = {}
    for name in names:
        try:
            topic = await call.context.topics.find(name)
        except Unmappable:
            continue
        if topic is not None:
            found[name] = topic
    return found


# -- committing ---------------------------------------------------------------------------------


async def offset_commit(call: ProxyCall) -> ProxyAnswer:
    """Commit what the coordinator accepts."""
    request: OffsetCommitRequest = call.message
    mapped = await _mapped(call, {topic.name for topic in request.topics})
    asked = request.topics
    # A topic that should be mapped and cannot be is not asked for: its numbers are virtual ones.
    request.topics = [
        await _physical(call, mapped[topic.name], topic) if topic.name in mapped else topic
        for topic in asked
        if topic.name in mapped or not call.context.topics.is_mapped(topic.name)
    ]
    answer = await call.ask(request, OffsetCommitResponse)
    verdicts = {
        (topic.name, row.partition_index): row.error_code
        for topic in answer.topics
        for row in topic.partitions
    }
    rows: dict[VirtualPartition, GroupCommit | None] = {}
    made = []
    for topic in asked:
        parts = [
            OffsetCommitResponsePartition(
                part.partition_index, _commit(mapped, verdicts, topic.name, part, rows)
            )
            for part in topic.partitions
        ]
        made.append(OffsetCommitResponseTopic(topic.name, parts))
    if rows:
        await call.context.offsets.commit(request.group_id, rows)
    answer.topics = made
    return answer


async def _physical(
    call: ProxyCall, mapped: MappedTopic, topic: OffsetCommitRequestTopic
) -> OffsetCommitRequestTopic:
    """What the coordinator is asked: the least place of each physical partition."""
    places: dict[int, int] = {}
    for part in topic.partitions:
        if mapped.has(part.partition_index):
            index, lane = mapped.place(part.partition_index)
            place = await _place(call, mapped, part, lane)
            places[index] = min(places.get(index, place), place)
    rows = [OffsetCommitRequestPartition(index, place) for index, place in places.items()]
    return OffsetCommitRequestTopic(topic.name, rows)


async def _place(
    call: ProxyCall, mapped: MappedTopic, part: OffsetCommitRequestPartition, lane: int
) -> int:
    """About where a committed offset lies, for people who look at the upstream's groups."""
    index = mapped.place(part.partition_index).physical_partition
    partition = call.context.partitions.get(mapped, index)
    if partition is None or not partition.opened.done():
        return 0
    known = partition.log.lanes.get(lane)
    if known is None or part.committed_offset >= known.next:
        return partition.log.next_place
    mark = known.mark_of(part.committed_offset)
    return partition.log.start_place if mark is None else mark.place


def _commit(
    mapped: dict[str, MappedTopic],
    verdicts: dict[tuple[str, int], int],
    name: str,
    part: OffsetCommitRequestPartition,
    rows: dict[VirtualPartition, GroupCommit | None],
) -> int:
    topic = mapped.get(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return verdicts.get((name, part.partition_index), unknown)
    if not topic.has(part.partition_index):
        return unknown
    code = verdicts.get((name, topic.place(part.partition_index).physical_partition), unknown)
    metadata = part.committed_metadata or ""
    if not code and len(metadata) > _MOST_METADATA:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    if not code:
        rows[VirtualPartition(name, part.partition_index)] = GroupCommit(
            part.committed_offset, part.committed_leader_epoch, metadata, topic.topic_id.hex()
        )
    return code


# -- fetching -----------------------------------------------------------------------------------


async def offset_fetch(call: ProxyCall) -> ProxyAnswer:
    """What groups have committed: the upstream's rows, and the ledger's."""
    request: OffsetFetchRequest = call.message
    if call.version >= _GROUP_FROM:
        return await _fetch_groups(call, request)
    wanted = None if request.topics is None else list(request.topics)
    mapped = await _mapped(call, {topic.name for topic in wanted or ()})
    if request.topics is not None:
        request.topics = [topic for topic in request.topics if topic.name not in mapped]
    answer = await call.ask(request, OffsetFetchResponse)
    if answer.error_code:
        return answer
    answer.topics = [one for one in answer.topics if not call.context.topics.is_mapped(one.name)]
    names = None if wanted is None else {one.name: one.partition_indexes for one in wanted}
    for name, places in (await _committed(call, request.group_id, names, mapped)).items():
        rows = [OffsetFetchResponsePartition(*row) for row in places]
        answer.topics.append(OffsetFetchResponseTopic(name, rows))
    return answer


async def _fetch_groups(call: ProxyCall, request: OffsetFetchRequest) -> OffsetFetchResponse:
    asked: dict[str, OffsetFetchRequestGroup] = {}
    wanted: dict[str, dict[str, list[int]] | None] = {}
    for group in request.groups:
        asked[group.group_id] = group
        topics = group.topics
        wanted[group.group_id] = (
            None if topics is None else {one.name: one.partition_indexes for one in topics}
        )
    mapped = await _mapped(call, {name for names in wanted.values() for name in names or ()})
    for group in request.groups:
        if group.topics is not None:
            group.topics = [topic for topic in group.topics if topic.name not in mapped]
    answer = await call.ask(request, OffsetFetchResponse)
    for found in answer.groups:
        if not found.error_code and found.group_id in asked:
            await _add_rows(call, found, wanted[found.group_id], mapped)
    return answer


async def _add_rows(
    call: ProxyCall,
    group: OffsetFetchResponseGroup,
    wanted: dict[str, list[int]] | None,
    mapped: dict[str, MappedTopic],
) -> None:
    group.topics = [one for one in group.topics if not call.context.topics.is_mapped(one.name)]
    for name, places in (await _committed(call, group.group_id, wanted, mapped)).items():
        rows = [OffsetFetchResponsePartitions(*row) for row in places]
        group.topics.append(OffsetFetchResponseTopics(name, rows))


_Row = tuple[int, int, int, str, int]
_NO_COMMIT: Final = GroupCommit(-1, -1, "", "")


async def _committed(
    call: ProxyCall,
    group: str,
    wanted: dict[str, list[int]] | None,
    mapped: dict[str, MappedTopic],
) -> dict[str, list[_Row]]:
    """Rows of virtual partitions, by topic; `wanted` None: all that there are."""
    if wanted is not None and not mapped:
        return {}
    rows = await call.context.offsets.of_group(group)
    if wanted is None:
        mapped = await _mapped(call, {place.topic for place in rows})
    ids = {name: topic.topic_id.hex() for name, topic in mapped.items()}
    known = {place: row for place, row in rows.items() if ids.get(place.topic) == row.topic_id}
    places = known if wanted is None else _places(wanted, mapped)
    found: dict[str, list[_Row]] = {}
    for place in places:
        row = known.get(place, _NO_COMMIT)
        found.setdefault(place.topic, []).append(
            (place.partition, row.offset, row.epoch, row.metadata, 0)
        )
    return found


def _places(wanted: dict[str, list[int]], mapped: Iterable[str]) -> list[VirtualPartition]:
    return [VirtualPartition(name, number) for name in mapped for number in wanted.get(name, ())]


# -- deleting -----------------------------------------------------------------------------------


async def delete_groups(call: ProxyCall) -> ProxyAnswer:
    """Delete groups upstream, and then their rows here."""
    answer = await call.ask(call.message, DeleteGroupsResponse)
    offsets = call.context.offsets
    for row in answer.results:
        if not row.error_code:
            known = await offsets.of_group(row.group_id)
            if known:
                await offsets.commit(row.group_id, dict.fromkeys(known))
    return answer


async def offset_delete(call: ProxyCall) -> ProxyAnswer:
    """Delete offsets of topics that no member reads; the coordinator knows which ones."""
    request: OffsetDeleteRequest = call.message
    mapped = await _mapped(call, {topic.name for topic in request.topics})
    asked = {topic.name: topic.partitions for topic in request.topics if topic.name in mapped}
    for topic in request.topics:
        if topic.name in mapped:
            places = mapped[topic.name]
            indexes = {
                places.place(part.partition_index).physical_partition
                for part in topic.partitions
                if places.has(part.partition_index)
            }
            topic.partitions = [OffsetDeleteRequestPartition(one) for one in sorted(indexes)]
    answer = await call.ask(request, OffsetDeleteResponse)
    if answer.error_code:
        return answer
    rows: dict[VirtualPartition, GroupCommit | None] = {}
    for found in answer.topics:
        if found.name not in mapped:
            continue
        codes = {row.partition_index: row.error_code for row in found.partitions}
        found.partitions = []
        for part in asked[found.name]:
            number, topic_of = part.partition_index, mapped[found.name]
            code: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic_of.has(number):
                code = codes.get(topic_of.place(number).physical_partition, code)
            if not code:
                rows[VirtualPartition(found.name, number)] = None
            found.partitions.append(OffsetDeleteResponsePartition(number, code))
    if rows:
        await call.context.offsets.commit(request.group_id, rows)
    return answer
