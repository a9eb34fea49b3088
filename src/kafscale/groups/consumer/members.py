"""The members of a consumer group, and which of them holds a partition.

Here: the roster. A partition is held by the member that it is assigned to, and by the member that
still has to give it up. Next door: how a member moves on (reconciliation.py).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from kafscale.groups.consumer.events import AWAY, Beat, MemberPartition


def by_topic(partitions: Iterable[MemberPartition]) -> dict[bytes, list[int]]:
    """Numbers of partitions by topic id, both in order."""
    rows: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        rows.setdefault(topic_id, []).append(partition)
    return rows


class MemberState(Enum):
    """How far a member is on the way to its target."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"  # it must give up partitions first
    UNRELEASED = "unreleased"  # other members still have partitions that it will get


@dataclass(slots=True)
class ConsumerMember:
    """One member: what it said about itself, and what it may read."""

    member_id: str
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_s: float = 0.0
    names: frozenset[str] = frozenset()
    regex: str = ""
    matched: frozenset[str] = frozenset()
    assignor: str = ""
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: frozenset[MemberPartition] = frozenset()
    revoking: frozenset[MemberPartition] = frozenset()
    matched_at: int = -1  # the revision of the topics when its pattern was matched
    expires_s: float = math.inf  # its session
    revoke_by_s: float = math.inf  # when it must have given up what it must give up
    # Of members that speak the classic protocol: what they say of themselves, by protocol.
    protocols: tuple[tuple[str, bytes], ...] = ()
    session_timeout_s: float = 0.0

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return bool(self.protocols)

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics that it subscribes to."""
        return self.names | self.matched

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that will be back."""
        return self.epoch == AWAY

    @property
    def held_bytes(self) -> int:
        """The memory of what the client chose to say."""
        said = sum(len(name) + len(data) for name, data in self.protocols)
        return said + sum(map(len, self.names)) + sum(map(len, self.matched)) + len(self.regex)

    def update(self, event: Beat) -> bool:
        """Take over what the member says anew. Whether its subscription has changed."""
        before = (self.names, self.regex, self.matched, self.assignor)
        self.client_id, self.client_host = event.client_id, event.client_host
        if event.rack is not None:
            self.rack = event.rack
        if event.rebalance_timeout_s is not None:
            self.rebalance_timeout_s = event.rebalance_timeout_s
        if event.names is not None:
            self.names = event.names
        if event.regex is not None:
            self.regex = event.regex
        if event.matched is not None:
            self.matched = event.matched
        if event.assignor is not None:
            self.assignor = event.assignor
        return before != (self.names, self.regex, self.matched, self.assignor)


@dataclass(slots=True)
class ConsumerRoster:
    """All members, by id and by instance id, and who holds which partition."""

    by_id: dict[str, ConsumerMember] = field(default_factory=dict)
    holders: dict[MemberPartition, str] = field(default_factory=dict)
    held_bytes: int = 0
    _by_instance: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the members."""
        return len(self.by_id)

    def with_instance(self, instance_id: str | None) -> ConsumerMember | None:
        """The static member of that name."""
        member_id = self._by_instance.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.by_id[member_id]

    def add(self, member: ConsumerMember) -> None:
        """Add a member, with what it holds."""
        self.by_id[member.member_id] = member
        self.held_bytes += member.held_bytes
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member.member_id
        self._take(member)

    def remove(self, member: ConsumerMember) -> None:
        """Remove a member: other members may have what it held."""
        del self.by_id[member.member_id]
        self.held_bytes -= member.held_bytes
        if self._by_instance.get(member.instance_id or "") == member.member_id:
            del self._by_instance[member.instance_id or ""]
        self._free(member)

    def rename(self, member: ConsumerMember, member_id: str) -> ConsumerMember:
        """A new process takes the place of a static member, under another id."""
        self.remove(member)
        successor = replace(member, member_id=member_id)
        self.add(successor)
        return successor

    def update(self, member: ConsumerMember, event: Beat) -> bool:
        """Take over what a member says anew. Whether its subscription has changed."""
        before = member.held_bytes
        has_changed = member.update(event)
        self.held_bytes += member.held_bytes - before
        return has_changed

    def speak(
        self,
        member: ConsumerMember,
        protocols: tuple[tuple[str, bytes], ...],
        session_timeout_s: float,
    ) -> bool:
        """Take over the classic protocols of a member; none: it speaks the newer one."""
        before = (member.protocols, member.session_timeout_s)
        self.held_bytes -= member.held_bytes
        member.protocols, member.session_timeout_s = protocols, session_timeout_s
        self.held_bytes += member.held_bytes
        return before != (protocols, session_timeout_s)

    def hold(
        self,
        member: ConsumerMember,
        assigned: frozenset[MemberPartition],
        revoking: frozenset[MemberPartition],
    ) -> None:
        """A member now has these partitions, and no others."""
        self._free(member)
        member.assigned, member.revoking = assigned, revoking
        self._take(member)

    def _take(self, member: ConsumerMember) -> None:
        for place in member.assigned | member.revoking:
            self.holders[place] = member.member_id

    def _free(self, member: ConsumerMember) -> None:
        for place in member.assigned | member.revoking:
            del self.holders[place]

    def is_held_by_others(self, place: MemberPartition, member: ConsumerMember) -> bool:
        """Whether another member has a partition, or has still to give it up."""
        return self.holders.get(place, member.member_id) != member.member_id
