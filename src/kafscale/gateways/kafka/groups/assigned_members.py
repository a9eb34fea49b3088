"""What the heartbeats of consumer groups and of share groups have in common.

Next door: one file per API (apis/), the machines (kafscale/groups).
"""

import asyncio

from kafscale.gateways.kafka.calls.call import Call
from kafscale.groups.consumer.events import Beat, Depart, MemberPartition
from kafscale.groups.consumer.members import by_topic
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.messages.consumer_group_heartbeat import (
    AssignedTopicPartitions,
    MemberAssignment,
)


async def ask(call: Call, event: Beat | Depart) -> GroupOutcome:
    """Let the group handle an event; gives its outcome when it is saved."""
    groups, group_id = call.engine.groups, call.message.group_id
    try:
        waiting: asyncio.Future[GroupOutcome] = groups.ask(group_id, event)
    except KafscaleError as problem:
        return Rejected(problem, event.member_id)
    return await groups.settled(group_id, waiting, event.member_id)


def names_of(names: list[str] | None) -> frozenset[str] | None:
    """A subscription; None if it has not changed."""
    return None if names is None else frozenset(names)


def assignment_of(places: frozenset[MemberPartition] | None) -> MemberAssignment | None:
    """What a member may read; None if that has not changed."""
    if places is None:
        return None
    rows = by_topic(places).items()
    return MemberAssignment(
        [AssignedTopicPartitions(topic_id, numbers) for topic_id, numbers in rows]
    )
