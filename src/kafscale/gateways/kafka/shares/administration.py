"""What the APIs have in common by which tools look at share groups and change them."""

from typing import Any

from kafscale.gateways.kafka.calls.call import Call
from kafscale.groups.share.machine import ShareGroup
from kafscale.model.errors import GroupNotEmpty, GroupNotFound
from kafscale.wire.kafka.schema import NO_UUID


async def require_share_group(call: Call, group_id: str) -> ShareGroup:
    """The share group of that name. Raises GroupNotFound."""
    group = await call.engine.groups.describe(group_id)
    if not isinstance(group, ShareGroup):
        raise GroupNotFound(f"there is no share group {group_id!r}")
    return group


async def require_empty_share_group(call: Call, group_id: str) -> None:
    """Raise GroupNotFound, or GroupNotEmpty if the group has members."""
    if not (await require_share_group(call, group_id)).is_idle:
        raise GroupNotEmpty("the group has members")


def by_topic_name(row: Any) -> str:
    """The resource of a row that calls it `topic_name`."""
    name: str = row.topic_name
    return name


def id_of(call: Call, name: str) -> bytes:
    """The id of a topic; none if there is no such topic."""
    topic = call.engine.topics.find(name)
    return NO_UUID if topic is None else topic.topic_id
