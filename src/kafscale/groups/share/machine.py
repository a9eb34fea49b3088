"""One share group: its members, and which partitions each of them reads.

Here: what only share groups have. Several members may read a partition, so a member has its new
partitions at once and waits for no other. The group commits no offsets: the owners of partitions
know what is acknowledged.
Next door: what consumer groups have, too (groups/consumer/assigned.py), the assignor (assignor.py).
"""

from typing import ClassVar

from kafscale.groups.consumer.assigned import AssignedGroup, ConsumerGroupState, MemberTimes
from kafscale.groups.consumer.assignors import Target
from kafscale.groups.consumer.events import Beat, Beaten, Depart, FetchOffsets, MemberPartition
from kafscale.groups.consumer.members import ConsumerMember, ConsumerRoster
from kafscale.groups.events import Caller, CommitOffsets, Rejected
from kafscale.groups.share.assignor import SIMPLE, assign_simple
from kafscale.model.errors import (
    FencedMemberEpoch,
    GroupNotFound,
    InvalidRequest,
    KafscaleError,
    UnknownMember,
)
from kafscale.model.group_types import SHARE


class ShareRoster(ConsumerRoster):
    """Members that may have a partition together: none of them holds it."""

    def _take(self, member: ConsumerMember) -> None:
        """Hold nothing."""

    def _free(self, member: ConsumerMember) -> None:
        """Hold nothing."""


class ShareGroup(AssignedGroup):
    """The machine. `handle` is the only way in."""

    group_type: ClassVar[str] = SHARE
    usual_assignor: ClassVar[str] = SIMPLE
    roster_type: ClassVar[type[ConsumerRoster]] = ShareRoster

    @property
    def state(self) -> ConsumerGroupState:
        """Members take over their partitions at once, so the group is stable while it has any."""
        if self._is_deleted:
            return ConsumerGroupState.DEAD
        return ConsumerGroupState.STABLE if len(self.roster) else ConsumerGroupState.EMPTY

    @property
    def _times(self) -> MemberTimes:
        rules = self._rules
        return MemberTimes(rules.share_session_s, rules.share_heartbeat_s, rules.most_share_members)

    def _objection(self, event: Beat) -> KafscaleError | None:
        if sum(map(len, event.names or ())) > self._rules.most_metadata_bytes:
            return InvalidRequest("the subscription is too large")
        return None

    def _find_or_admit(self, event: Beat) -> ConsumerMember | KafscaleError:
        known = self.roster.by_id.get(event.member_id)
        if event.epoch == 0:
            return self._admit(event) if known is None else known
        if known is None:
            return UnknownMember("join the group first")
        if event.epoch not in (known.epoch, known.previous_epoch):
            return FencedMemberEpoch(f"the member's epoch is {known.epoch}, not {event.epoch}")
        return known

    def _make_target(self) -> Target:
        members = self.roster.by_id.items()
        return assign_simple(
            {member_id: member.names for member_id, member in members}, self._topics
        )

    def _move_on(
        self, member: ConsumerMember, owned: frozenset[MemberPartition] | None, now_s: float
    ) -> None:
        if member.epoch != self.target_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.target_epoch
            member.assigned = self.target.get(member.member_id, frozenset())
            self._has_changed = True

    def _depart(self, event: Depart, now_s: float) -> None:
        member = self.roster.by_id.get(event.member_id)
        if member is None:
            self._answer(event.call, Rejected(UnknownMember("not a member"), event.member_id))
            return
        self._remove(member)
        self._answer(event.call, Beaten(event.member_id, event.epoch))

    def _commit(self, event: CommitOffsets, now_s: float) -> None:
        self._refuse_offsets(event.call)

    def _fetch(self, event: FetchOffsets, now_s: float) -> None:
        self._refuse_offsets(event.call)

    def _refuse_offsets(self, call: Caller) -> None:
        self._answer(call, Rejected(GroupNotFound("members of a share group commit no offsets")))
