"""The part of a group that is saved. It is taken when a rebalance is complete, never during one."""

from dataclasses import dataclass

from kafscale.groups.events import Snapshot


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """A member: what it said about itself, and its assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_s: float
    rebalance_timeout_s: float
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupSnapshot(Snapshot):
    """A stable group, or an empty one without protocol, leader and members."""

    protocol_type: str
    protocol: str
    generation: int
    leader: str
    members: tuple[MemberSnapshot, ...]
