"""The members of one group: their data, their vote, their leader.

Here: the roster. Next door: what happens when it changes (machine.py).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafscale.groups.classic.events import Join, Subscriber
from kafscale.groups.classic.snapshot import MemberSnapshot
from kafscale.groups.events import Caller
from kafscale.model.errors import FencedInstance, KafscaleError, UnknownMember


@dataclass(slots=True)
class Member:
    """One member. Its session does not expire while one of its own requests waits."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_s: float
    rebalance_timeout_s: float
    protocols: Mapping[str, bytes]
    assignment: bytes = b""
    expires_s: float = 0.0
    joining: Caller | None = None
    syncing: Caller | None = None
    has_synced: bool = False
    former_generation: int = -1  # it knows the group by this one until the next begins

    @property
    def is_waiting(self) -> bool:
        """Whether one of its requests waits for a reply."""
        return self.joining is not None or self.syncing is not None

    def renew_session(self, now_s: float) -> None:
        """Start its session again, from now."""
        self.expires_s = now_s + self.session_timeout_s

    @property
    def held_bytes(self) -> int:
        """The memory of what clients chose to say: its metadata and its assignment."""
        return sum(map(len, self.protocols.values())) + len(self.assignment)

    @property
    def metadata_bytes(self) -> int:
        """What it said about itself, with the names of the protocols."""
        return sum(len(name) + len(data) for name, data in self.protocols.items())

    def update(self, event: Join) -> None:
        """Replace what it said about itself before."""
        self.client_id = event.client_id
        self.client_host = event.client_host
        self.session_timeout_s = event.session_timeout_s
        self.rebalance_timeout_s = event.rebalance_timeout_s
        self.protocols = event.protocols

    @classmethod
    def restored(cls, saved: MemberSnapshot) -> "Member":
        """A member of a stable group, as it was saved."""
        return cls(
            saved.member_id,
            saved.instance_id,
            saved.client_id,
            saved.client_host,
            saved.session_timeout_s,
            saved.rebalance_timeout_s,
            dict(saved.protocols),
            saved.assignment,
            has_synced=True,
        )

    def snapshot(self) -> MemberSnapshot:
        """The part of the member that is saved."""
        return MemberSnapshot(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_s,
            self.rebalance_timeout_s,
            tuple(self.protocols.items()),
            self.assignment,
        )


@dataclass(slots=True)
class Roster:
    """All members, in the order in which they joined."""

    by_id: dict[str, Member] = field(default_factory=dict)
    leader: str = ""
    held_bytes: int = 0  # of all members together
    _by_instance: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the members."""
        return len(self.by_id)

    @property
    def metadata_bytes(self) -> int:
        """What all members said about themselves."""
        return sum(member.metadata_bytes for member in self.by_id.values())

    def add(self, member: Member) -> None:
        """Add a member; the first one becomes the leader."""
        self.by_id[member.member_id] = member
        self.held_bytes += member.held_bytes
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member.member_id
        self.leader = self.leader or member.member_id

    def remove(self, member: Member) -> None:
        """Remove a member; if it was the leader, the longest-standing member becomes it."""
        del self.by_id[member.member_id]
        self.held_bytes -= member.held_bytes
        if member.instance_id is not None:
            del self._by_instance[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.by_id), "")

    def update(self, member: Member, event: Join) -> None:
        """Replace what a member said about itself before."""
        self.held_bytes -= member.held_bytes
        member.update(event)
        self.held_bytes += member.held_bytes

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Give every member its assignment, by member id; an empty one to those without."""
        self.held_bytes = 0
        for member in self.by_id.values():
            member.assignment = assignments.get(member.member_id, b"")
            self.held_bytes += member.held_bytes

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member another id; it keeps its position and its leadership."""
        was_leader = self.leader == member.member_id
        old = member.member_id
        member.member_id = member_id
        self.by_id = {
            (member_id if key == old else key): value for key, value in self.by_id.items()
        }
        assert member.instance_id is not None
        self._by_instance[member.instance_id] = member_id
        if was_leader:
            self.leader = member_id

    def with_instance(self, instance_id: str | None) -> Member | None:
        """The static member with this instance id, if there is one."""
        member_id = self._by_instance.get(instance_id) if instance_id is not None else None
        return self.by_id[member_id] if member_id is not None else None

    def find(self, member_id: str, instance_id: str | None) -> Member | KafscaleError:
        """The member, or the reason why there is none."""
        if instance_id is not None:
            named = self.with_instance(instance_id)
            if named is None:
                return UnknownMember(f"the group has no member {instance_id!r}")
            if named.member_id != member_id:
                return FencedInstance(f"{instance_id!r} has been taken over by another process")
            return named
        member = self.by_id.get(member_id)
        return UnknownMember(f"the group has no member {member_id!r}") if member is None else member

    def elect(self) -> bool:
        """Keep or choose a leader among the members that have joined; False if none has."""
        if self.leader in self.by_id and self.by_id[self.leader].joining is not None:
            return True
        joined = next((m.member_id for m in self.by_id.values() if m.joining is not None), None)
        self.leader = joined or self.leader
        return joined is not None

    def common_protocols(self) -> list[str]:
        """The protocols that every member supports, in the order the first member prefers."""
        members = list(self.by_id.values())
        if not members:
            return []
        return [name for name in members[0].protocols if all(name in m.protocols for m in members)]

    def vote(self) -> str:
        """The protocol that most members prefer among those that all of them support."""
        common = self.common_protocols()
        votes = Counter(
            next(name for name in member.protocols if name in common)
            for member in self.by_id.values()
        )
        return max(common, key=lambda name: votes[name])

    def subscribers(self, protocol: str) -> tuple[Subscriber, ...]:
        """What the leader needs in order to assign partitions."""
        return tuple(
            Subscriber(member.member_id, member.instance_id, member.protocols.get(protocol, b""))
            for member in self.by_id.values()
        )

    def longest_rebalance_s(self) -> float:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_s for member in self.by_id.values()), default=0.0)
