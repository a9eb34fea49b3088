"""The part of a consumer group that is saved."""

from dataclasses import dataclass

from kafscale.groups.consumer.events import MemberPartition
from kafscale.groups.events import Snapshot
from kafscale.model.group_types import CONSUMER


@dataclass(frozen=True, slots=True)
class ConsumerMemberSnapshot:
    """A member: what it said about itself, what it has and what it will have."""

    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    rebalance_timeout_s: float
    names: frozenset[str]
    regex: str
    matched: frozenset[str]
    assignor: str
    epoch: int
    previous_epoch: int
    state: str
    assigned: frozenset[MemberPartition]
    revoking: frozenset[MemberPartition]
    target: frozenset[MemberPartition]
    # Of members that speak the classic protocol.
    protocols: tuple[tuple[str, bytes], ...] = ()
    session_timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ConsumerSnapshot(Snapshot):
    """A consumer group between two events."""

    epoch: int
    target_epoch: int
    state: str
    assignor: str
    members: tuple[ConsumerMemberSnapshot, ...]
    group_type: str = CONSUMER
