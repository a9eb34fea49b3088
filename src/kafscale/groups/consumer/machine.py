"""One consumer group: who reads what, and how members get there.

Here: what only consumer groups have. Each partition has one reader, which gives it up before
another member gets it. Members vote for an assignor, and may be static.
Next door: what share groups have, too (assigned.py), members that speak the classic protocol
(mixed.py), how a member moves on (reconciliation.py), who should read what (assignors.py), the
members (members.py), events (events.py).
"""

import math
from collections import Counter
from typing import ClassVar

from kafscale.groups.consumer.assigned import ConsumerGroupState, MemberTimes
from kafscale.groups.consumer.assignors import ASSIGNORS, UNIFORM, Target
from kafscale.groups.consumer.events import (
    AWAY,
    Beat,
    Beaten,
    Depart,
    FetchOffsets,
    MemberPartition,
)
from kafscale.groups.consumer.members import ConsumerMember, MemberState
from kafscale.groups.consumer.mixed import MixedGroup
from kafscale.groups.consumer.reconciliation import reconcile
from kafscale.groups.events import Accepted, Caller, CommitOffsets, Rejected
from kafscale.model.errors import (
    FencedInstance,
    FencedMemberEpoch,
    IllegalGeneration,
    InvalidRequest,
    KafscaleError,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)
from kafscale.model.group_types import CONSUMER


class ConsumerGroup(MixedGroup):
    """The machine. `handle` is the only way in."""

    group_type: ClassVar[str] = CONSUMER
    usual_assignor: ClassVar[str] = UNIFORM

    @property
    def state(self) -> ConsumerGroupState:
        """What a description of the group says."""
        if self._is_deleted:
            return ConsumerGroupState.DEAD
        if not len(self.roster):
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        for member in self.roster.by_id.values():
            if member.state is not MemberState.STABLE or member.epoch != self.target_epoch:
                return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    @property
    def _times(self) -> MemberTimes:
        rules = self._rules
        return MemberTimes(rules.consumer_session_s, rules.consumer_heartbeat_s, rules.most_members)

    # -- heartbeats --------------------------------------------------------------------------

    def _objection(self, event: Beat) -> KafscaleError | None:
        """What is wrong with a heartbeat of any member."""
        if event.assignor and event.assignor not in ASSIGNORS:
            return UnsupportedAssignor(f"the assignors are {', '.join(ASSIGNORS)}")
        said = sum(map(len, event.names or ())) + sum(map(len, event.matched or ()))
        if said > self._rules.most_metadata_bytes:
            return InvalidRequest("the subscription is too large")
        return None

    def _find_or_admit(self, event: Beat) -> ConsumerMember | KafscaleError:
        known = self.roster.by_id.get(event.member_id)
        named = self.roster.with_instance(event.instance_id)
        if event.epoch == 0:
            if named is not None and named is not known:
                if not named.is_away and not named.is_classic:
                    return UnreleasedInstance("another member has this instance id")
                return self._succeed(named, event)
            if known is not None and known.is_classic:
                return FencedMemberEpoch("a member of the classic protocol has this id")
            return self._admit(event) if known is None else known
        if known is None or known.is_classic:
            return UnknownMember("join the group first")
        if event.instance_id is not None and named is not known:
            return FencedInstance("another member has this instance id")
        is_late = event.epoch == known.previous_epoch and (
            event.owned is not None and event.owned <= known.assigned
        )
        if event.epoch > known.epoch or (event.epoch < known.epoch and not is_late):
            return FencedMemberEpoch(f"the member's epoch is {known.epoch}, not {event.epoch}")
        return known

    def _succeed(self, former: ConsumerMember, event: Beat) -> ConsumerMember:
        """A static member is back: it goes on with what it had."""
        successor = self.roster.rename(former, event.member_id or event.fresh_id)
        self.roster.speak(successor, (), 0.0)
        if successor.is_away:
            successor.epoch = successor.previous_epoch
        target = self.target.pop(former.member_id, None)
        if target is not None:
            self.target[successor.member_id] = target
        self._has_changed = True
        return successor

    def _move_on(
        self, member: ConsumerMember, owned: frozenset[MemberPartition] | None, now_s: float
    ) -> None:
        target = self.target.get(member.member_id, frozenset())
        was = member.state
        if reconcile(self.roster, member, target, self.target_epoch, owned):
            self._has_changed = True
        if member.state is not MemberState.UNREVOKED:
            member.revoke_by_s = math.inf
        elif was is not MemberState.UNREVOKED:
            member.revoke_by_s = now_s + member.rebalance_timeout_s

    def _make_target(self) -> Target:
        members = self.roster.by_id
        votes = Counter(
            member.assignor or UNIFORM for member in members.values() if not member.is_classic
        )
        self.assignor = min(votes, key=lambda name: (-votes[name], name)) if votes else UNIFORM
        subscriptions = {member_id: member.topics for member_id, member in members.items()}
        return ASSIGNORS[self.assignor](subscriptions, self._topics, self.target)

    # -- leaving -----------------------------------------------------------------------------

    def _depart(self, event: Depart, now_s: float) -> None:
        member = self.roster.by_id.get(event.member_id)
        if member is None or member.is_classic:
            self._answer(event.call, Rejected(UnknownMember("not a member"), event.member_id))
            return
        if event.instance_id is not None and event.instance_id != member.instance_id:
            problem = FencedInstance("another member has this instance id")
            self._answer(event.call, Rejected(problem, event.member_id))
            return
        if event.epoch == AWAY:
            if not member.is_away:
                member.previous_epoch, member.epoch = member.epoch, AWAY
            self._has_changed = True
        else:
            self._remove(member)
        self._answer(event.call, Beaten(event.member_id, event.epoch))

    # -- offsets -----------------------------------------------------------------------------

    def _commit(self, event: CommitOffsets, now_s: float) -> None:
        if event.generation < 0 and not len(self.roster):
            self._answer(event.call, Accepted())
        else:
            member = self.roster.by_id.get(event.member_id)
            if member is not None and member.is_classic:
                self._renew(member, now_s)
            self._check_epoch(event.call, event.member_id, event.generation)

    def _fetch(self, event: FetchOffsets, now_s: float) -> None:
        self._check_epoch(event.call, event.member_id, event.epoch)

    def _check_epoch(self, call: Caller, member_id: str, epoch: int) -> None:
        member = self.roster.by_id.get(member_id)
        if member is None:
            self._answer(call, Rejected(UnknownMember("not a member"), member_id))
        elif epoch != member.epoch:
            kind = IllegalGeneration if member.is_classic else StaleMemberEpoch
            problem = kind(f"the member's epoch is {member.epoch}, not {epoch}")
            self._answer(call, Rejected(problem, member_id))
        else:
            self._answer(call, Accepted())
