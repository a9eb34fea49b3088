"""What all groups have in common whose partitions the coordinator assigns.

Here: members, epochs, the target, and when each of them changes. Events come in with the time.
Effects go out in the order in which the shell must carry them out. No request waits: a member
learns of changes by its next heartbeat.
Next door: consumer groups (machine.py), share groups (groups/share/machine.py), the members
(members.py), events (events.py), the shell (engine/coordinator/groups.py).

Three epochs rise. The group's epoch rises when members, subscriptions or topics change. The target
epoch is the group's epoch for which the target was made. A member's epoch is the target epoch that
the member has reached.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self

from kafscale.groups.consumer.assignors import Target, TopicPartitions
from kafscale.groups.consumer.events import (
    Beat,
    Beaten,
    Depart,
    FetchOffsets,
    MemberPartition,
)
from kafscale.groups.consumer.member_data import MemberCodec, UnreadMemberData
from kafscale.groups.consumer.members import ConsumerMember, ConsumerRoster, MemberState
from kafscale.groups.consumer.snapshot import ConsumerMemberSnapshot, ConsumerSnapshot
from kafscale.groups.events import (
    Accepted,
    Caller,
    CommitOffsets,
    Delete,
    Effect,
    Event,
    GroupOutcome,
    Persist,
    Rejected,
    Reply,
    Snapshot,
    Tick,
    WakeAt,
)
from kafscale.groups.rules import GroupRules
from kafscale.model.errors import GroupFull, GroupIsGoing, GroupNotEmpty, KafscaleError

# A larger group is assigned anew at most once in an interval: many members join one after another.
_SMALL: Final = 50
_ASSIGNMENT_INTERVAL_S: Final = 1.0
_UNREAD: Final = UnreadMemberData()


class ConsumerGroupState(Enum):
    """The protocol's own names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberTimes(NamedTuple):
    """What the broker sets for the members of a group, by its configuration."""

    session_s: float
    heartbeat_s: float
    most_members: int


class TopicDirectory(Protocol):
    """Which topics there are."""

    @property
    def revision(self) -> int:
        """Another number after every change."""

    def partitions_of(self, name: str) -> TopicPartitions | None:
        """The topic of that name, if there is one."""


class AssignedGroup(ABC):
    """The machine of such a group. `handle` is the only way in."""

    group_type: ClassVar[str]
    usual_assignor: ClassVar[str]
    roster_type: ClassVar[type[ConsumerRoster]] = ConsumerRoster

    def __init__(
        self,
        rules: GroupRules,
        topics: TopicDirectory,
        codec: MemberCodec = _UNREAD,
        epoch: int = 0,
    ) -> None:
        self._rules = rules
        self._directory = topics
        self._codec = codec
        self._effects: list[Effect] = []
        self._has_changed = False
        self._epoch_before = epoch  # the event that is handled now
        self.roster = self.roster_type()
        self.epoch = self.target_epoch = epoch
        self.target: Target = {}
        self.assignor = self.usual_assignor
        self._is_deleted = False
        self._revision = -1  # of the directory, when it was looked at last
        self._topics: dict[str, TopicPartitions] = {}  # that members subscribe to
        self._assigned_s = -math.inf
        self._handlers: dict[type[Any], Callable[[Any, float], None]] = {
            Beat: self._beat,
            Depart: self._depart,
            CommitOffsets: self._commit,
            FetchOffsets: self._fetch,
            Delete: self._delete,
            Tick: self._tick,
        }

    # -- what differs between types of groups ------------------------------------------------

    @abstractmethod
    def _objection(self, event: Beat) -> KafscaleError | None:
        """What is wrong with a heartbeat of any member."""

    @abstractmethod
    def _find_or_admit(self, event: Beat) -> ConsumerMember | KafscaleError:
        """The member that a heartbeat is from, or why there is none."""

    @abstractmethod
    def _make_target(self) -> Target:
        """Which member should read which partition."""

    @abstractmethod
    def _move_on(
        self, member: ConsumerMember, owned: frozenset[MemberPartition] | None, now_s: float
    ) -> None:
        """Bring a member closer to its target."""

    @abstractmethod
    def _depart(self, event: Depart, now_s: float) -> None:
        """A member leaves."""

    @abstractmethod
    def _commit(self, event: CommitOffsets, now_s: float) -> None:
        """A client wants to commit offsets."""

    @abstractmethod
    def _fetch(self, event: FetchOffsets, now_s: float) -> None:
        """A member asks for committed offsets."""

    @property
    @abstractmethod
    def _times(self) -> MemberTimes:
        """How long a session lasts, and how often members send heartbeats."""

    @classmethod
    def restored(
        cls,
        rules: GroupRules,
        topics: TopicDirectory,
        saved: ConsumerSnapshot,
        now_s: float,
        codec: MemberCodec = _UNREAD,
    ) -> Self:
        """The group as it was saved. Each member has a whole session to send a heartbeat."""
        group = cls(rules, topics, codec)
        group.epoch, group.target_epoch = saved.epoch, saved.target_epoch
        group.assignor = saved.assignor
        for row in saved.members:
            facts = {field.name: getattr(row, field.name) for field in fields(row)}
            group.target[row.member_id] = facts.pop("target")
            member = ConsumerMember(**facts | {"state": MemberState(row.state)})
            group._renew(member, now_s)
            if member.state is MemberState.UNREVOKED:
                member.revoke_by_s = now_s + member.rebalance_timeout_s
            group.roster.add(member)
        group._look_up_topics()
        if group.target_epoch == group.epoch and not group._target_is_whole():
            group.epoch += 1  # topics have come, gone or grown since the target was made
        return group

    # -- what others ask --------------------------------------------------------------------

    @property
    @abstractmethod
    def state(self) -> ConsumerGroupState:
        """What a description of the group says."""

    def change_rules(self, rules: GroupRules) -> None:
        """Other limits hold from now on."""
        self._rules = rules

    def waiting_calls(self) -> Iterator[Caller]:
        """No request waits: a member is told of changes when it sends a heartbeat."""
        return iter(())

    @property
    def protocol_type(self) -> str:
        """What lists of groups show."""
        return self.group_type

    @property
    def is_idle(self) -> bool:
        """Whether the group is empty and has no deadline."""
        return not len(self.roster)

    @property
    def generation(self) -> int:
        """The epoch; by this name all types of groups have it."""
        return self.epoch

    def next_wake_s(self) -> float:
        """When a Tick is due next; infinity if no deadline is set."""
        members = self.roster.by_id.values()
        times = [min(member.expires_s, member.revoke_by_s) for member in members]
        if self.target_epoch < self.epoch:
            times.append(self._assigned_s + _ASSIGNMENT_INTERVAL_S)
        return min(times, default=math.inf)

    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics that members subscribe to."""
        return frozenset().union(*(member.topics for member in self.roster.by_id.values()))

    def regex_to_match_again(self, member_id: str) -> str | None:
        """The pattern of a member if topics have changed since it was matched; else None."""
        member = self.roster.by_id.get(member_id)
        if member is None or not member.regex or member.matched_at == self._directory.revision:
            return None
        return member.regex

    def name_of(self, topic_id: bytes) -> str:
        """The name of a subscribed topic; empty if it does not exist any more."""
        return next((name for name, row in self._topics.items() if row.topic_id == topic_id), "")

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """Handle one event; gives the effects, in the order in which to carry them out."""
        self._effects, self._has_changed, self._epoch_before = [], False, self.epoch
        call = getattr(event, "call", None)
        if self._is_deleted and call is not None:
            self._answer(call, Rejected(GroupIsGoing("the group is being deleted")))
            return self._effects
        self._handlers[type(event)](event, now_s)
        has_new_deadline = self._has_changed or isinstance(event, Tick)
        if self._has_changed:
            self._effects.insert(0, Persist(_Present(self)))
        if has_new_deadline and (wake_s := self.next_wake_s()) < math.inf:
            self._effects.append(WakeAt(wake_s))
        return self._effects

    # -- heartbeats --------------------------------------------------------------------------

    def _beat(self, event: Beat, now_s: float) -> None:
        member = self._objection(event) or self._find_or_admit(event)
        if isinstance(member, KafscaleError):
            self._answer(event.call, Rejected(member, event.member_id))
            return
        self._renew(member, now_s)
        if event.matched is not None:
            member.matched_at = event.matched_at
        if self.roster.update(member, event):
            self._look_up_topics()
            self._raise_epoch()
        elif self._directory.revision != self._revision and self._look_up_topics():
            self._raise_epoch()
        self._assign_if_due(now_s)
        told = member.assigned
        self._move_on(member, event.owned if event.epoch else frozenset(), now_s)
        is_news = event.epoch == 0 or event.is_full or member.assigned != told
        assigned = member.assigned if is_news else None
        interval_s = self._times.heartbeat_s
        self._answer(event.call, Beaten(member.member_id, member.epoch, interval_s, assigned))

    def _admit(self, event: Beat) -> ConsumerMember | KafscaleError:
        if len(self.roster) >= self._times.most_members:
            return GroupFull(f"a group has at most {self._times.most_members} members")
        member = ConsumerMember(event.member_id or event.fresh_id, event.instance_id)
        self.roster.add(member)
        self._raise_epoch()
        return member

    def _renew(self, member: ConsumerMember, now_s: float) -> None:
        member.expires_s = now_s + (member.session_timeout_s or self._times.session_s)

    # -- the target --------------------------------------------------------------------------

    def _raise_epoch(self) -> None:
        """Raise the epoch, once for each event."""
        if self.epoch == self._epoch_before:
            self.epoch += 1
        self._has_changed = True

    def _look_up_topics(self) -> bool:
        """Look at the topics that members subscribe to. Whether one has come, gone or grown."""
        self._revision = self._directory.revision
        found = {name: self._directory.partitions_of(name) for name in self.subscribed_topics()}
        topics = {name: row for name, row in found.items() if row is not None}
        has_changed = topics != self._topics
        self._topics = topics
        return has_changed

    def _target_is_whole(self) -> bool:
        """Whether the target has every partition of the subscribed topics, and no other."""
        wanted = {
            (row.topic_id, partition)
            for row in self._topics.values()
            for partition in range(row.partition_count)
        }
        return wanted == set().union(*self.target.values())

    def _assign_if_due(self, now_s: float) -> None:
        if self.target_epoch == self.epoch:
            return
        is_soon = now_s < self._assigned_s + _ASSIGNMENT_INTERVAL_S
        if is_soon and len(self.roster) > _SMALL:
            return
        self.target = self._make_target()
        self.target_epoch = self.epoch
        self._assigned_s = now_s
        self._has_changed = True

    # -- leaving -----------------------------------------------------------------------------

    def _remove(self, member: ConsumerMember) -> None:
        self.roster.remove(member)
        self.target.pop(member.member_id, None)
        self._look_up_topics()
        self._raise_epoch()

    def _delete(self, event: Delete, now_s: float) -> None:
        if len(self.roster):
            self._answer(event.call, Rejected(GroupNotEmpty("the group has members")))
        else:
            self._is_deleted = True
            self._answer(event.call, Accepted())

    # -- time --------------------------------------------------------------------------------

    def _tick(self, event: Tick, now_s: float) -> None:
        for member in list(self.roster.by_id.values()):
            if min(member.expires_s, member.revoke_by_s) <= now_s:
                self._remove(member)
        self._assign_if_due(now_s)

    # -- effects -----------------------------------------------------------------------------

    def _answer(self, call: Caller, outcome: GroupOutcome) -> None:
        self._effects.append(Reply(call, outcome))

    def snapshot(self) -> ConsumerSnapshot:
        """The part of the group that is saved."""
        return ConsumerSnapshot(
            self.epoch,
            self.target_epoch,
            self.state.value,
            self.assignor,
            tuple(map(self._member_snapshot, self.roster.by_id.values())),
            self.group_type,
        )

    def _member_snapshot(self, member: ConsumerMember) -> ConsumerMemberSnapshot:
        names = (field.name for field in fields(ConsumerMemberSnapshot))
        facts = {name: getattr(member, name) for name in names if name not in ("state", "target")}
        target = self.target.get(member.member_id, frozenset())
        return ConsumerMemberSnapshot(**facts, state=member.state.value, target=target)


class _Present(Snapshot):
    """The group as it is when it is saved: many changes between two saves cost one snapshot."""

    __slots__ = ("_group",)

    def __init__(self, group: AssignedGroup) -> None:
        self._group = group

    def take(self) -> ConsumerSnapshot:
        """The snapshot to save now."""
        return self._group.snapshot()
