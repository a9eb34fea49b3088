"""The memory that the members of all groups of a broker hold, and what fits into it.

Here: one account for metadata and assignments. They stay after a JoinGroup is answered, so they
are not on the account of the requests in flight. What members say is theirs to choose, and a
client that says much must not keep ordinary consumers out of their groups: members with much
metadata get one half of the account.
Next door: the groups (groups.py), how large one member may be (groups/classic/admission.py).
"""

from typing import Final

from kafscale.groups.classic.events import Join, Sync
from kafscale.groups.consumer.events import Beat
from kafscale.groups.events import Event
from kafscale.groups.machines import GroupMachine
from kafscale.model.errors import GroupMemoryFull

ORDINARY_BYTES: Final = 16 << 10  # of metadata: enough for the names of hundreds of topics


class MemberMemory:
    """Counts the bytes of all groups; refuses joins and assignments that do not fit."""

    def __init__(self, most_bytes: int) -> None:
        """Nothing is held yet."""
        self._most_bytes = most_bytes
        self._by_group: dict[str, int] = {}
        self.held_bytes = 0

    def require_room(self, group: GroupMachine, event: Event) -> None:
        """Raise GroupMemoryFull if what the event brings does not fit."""
        if isinstance(event, Join):
            brought = sum(map(len, event.protocols.values()))
            member = group.roster.by_id.get(event.member_id)
            more = brought - (member.held_bytes if member is not None else 0)
        elif isinstance(event, Beat):
            brought = more = sum(map(len, event.names or ())) + sum(map(len, event.matched or ()))
        elif isinstance(event, Sync):
            brought = more = sum(map(len, event.assignments.values()))
        else:
            return
        room = self._most_bytes if brought <= ORDINARY_BYTES else self._most_bytes // 2
        if more > 0 and self.held_bytes + more > room:
            raise GroupMemoryFull(
                f"members of groups hold {self.held_bytes} bytes; {brought} more do not fit"
            )

    def note(self, group_id: str, group: GroupMachine) -> None:
        """Take over what a group holds now."""
        held_bytes = group.roster.held_bytes
        self.held_bytes += held_bytes - self._by_group.pop(group_id, 0)
        if held_bytes:
            self._by_group[group_id] = held_bytes

    def forget(self, group_id: str) -> None:
        """A group is no longer in memory."""
        self.held_bytes -= self._by_group.pop(group_id, 0)
