"""Reasons to refuse a join that do not depend on the group's state.

Next door: what happens to a join that is admitted (machine.py).
"""

from collections.abc import Collection

from kafscale.groups.classic.events import Join
from kafscale.groups.classic.members import Roster
from kafscale.groups.rules import GroupRules
from kafscale.model.errors import (
    GroupFull,
    InconsistentProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    KafscaleError,
)


def objection(
    event: Join, roster: Roster, pending: Collection[str], protocol_type: str, rules: GroupRules
) -> KafscaleError | None:
    """The reason to refuse this join, or None."""
    if not rules.shortest_session_s <= event.session_timeout_s <= rules.longest_session_s:
        return InvalidSessionTimeout(
            f"a session has {rules.shortest_session_s} to {rules.longest_session_s} seconds"
        )
    size = sum(len(name) + len(data) for name, data in event.protocols.items())
    if size > rules.most_metadata_bytes:
        return InvalidRequest(f"a member's metadata has {size} bytes")
    if not event.protocol_type or not event.protocols:
        return InconsistentProtocol("no protocol is named")
    if len(roster) and not (event.protocol_type == protocol_type and _shares(event, roster)):
        return InconsistentProtocol("the group's members speak other protocols")
    known = roster.by_id.get(event.member_id) or roster.with_instance(event.instance_id)
    others = roster.metadata_bytes - (known.metadata_bytes if known is not None else 0)
    if others + size > rules.most_group_bytes:
        return GroupFull(
            f"the metadata of the group's members would have {others + size} bytes;"
            f" {rules.most_group_bytes} are allowed"
        )
    is_new = not event.member_id and roster.with_instance(event.instance_id) is None
    if is_new and len(roster) + len(pending) >= rules.most_members:
        return GroupFull(f"the group has {rules.most_members} members")
    return None


def _shares(event: Join, roster: Roster) -> bool:
    return any(name in event.protocols for name in roster.common_protocols())
