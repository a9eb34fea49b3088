"""The events that a consumer group handles and the outcomes that its members get.

Here: values. Next door: the state machine (machine.py), what all types of groups share
(groups/events.py).
Never here: behaviour.
"""

from dataclasses import dataclass

from kafscale.groups.events import Caller, Event, GroupOutcome
from kafscale.model.group_types import CONSUMER

MemberPartition = tuple[bytes, int]  # a partition: the topic's id and the number

LEFT = -1  # the epoch of a member that leaves
AWAY = -2  # the epoch of a static member that will be back


# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Event):
    """A heartbeat of a member, or of a client that wants to become one (epoch 0).

    None stands for what has not changed since the member's last heartbeat.
    """

    call: Caller
    group_type: str = CONSUMER
    member_id: str = ""
    fresh_id: str = ""  # an unused id, for a client that has none
    epoch: int = 0
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_s: float | None = None
    names: frozenset[str] | None = None
    regex: str | None = None
    matched: frozenset[str] | None = None  # the topics that the regex matches, newly looked up
    matched_at: int = -1  # the revision of the topics before they were looked up
    assignor: str | None = None
    owned: frozenset[MemberPartition] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, so that it must be told everything."""
        subscribes = self.names is not None or self.regex is not None
        return self.rebalance_timeout_s is not None and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Depart(Event):
    """A member leaves, or a static member goes away for a while."""

    call: Caller
    member_id: str
    epoch: int  # LEFT or AWAY
    group_type: str = CONSUMER
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets(Event):
    """A member asks for committed offsets: it gets none if its epoch is out of date."""

    call: Caller
    member_id: str
    epoch: int


# -- outcomes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Beaten(GroupOutcome):
    """The member's epoch, and all that it may read; None if that has not changed."""

    member_id: str
    epoch: int
    heartbeat_s: float = 0.0
    assigned: frozenset[MemberPartition] | None = None
