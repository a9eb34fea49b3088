"""Members of a consumer group that speak the classic protocol.

Here: their four requests. The coordinator assigns partitions to them, too. A member that has to
change its partitions is told by its heartbeat to join again. A join is answered at once: it makes
no member the leader and waits for no other member. The answer to SyncGroup has what the member may
read. A member that gives up partitions says so when it joins: it lists what it still reads.
Next door: members of the newer protocol (machine.py), how a group comes to have both, and goes back
(groups/migration.py), their bytes (member_data.py).
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from kafscale.groups.classic.events import Heartbeat, Join, Joined, Leave, Left, Sync, Synced
from kafscale.groups.consumer.assigned import AssignedGroup, TopicDirectory
from kafscale.groups.consumer.events import Beat, MemberPartition
from kafscale.groups.consumer.member_data import MemberSubscription, TopicNumbers
from kafscale.groups.consumer.members import ConsumerMember, MemberState, by_topic
from kafscale.groups.events import Accepted, Rejected, Tick
from kafscale.model.errors import (
    FencedInstance,
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    KafscaleError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
    UnreleasedInstance,
)

CONSUMER_PROTOCOL_TYPE: Final = "consumer"  # what consumers call themselves in JoinGroup


def places_of(topics: TopicDirectory, rows: Iterable[TopicNumbers]) -> frozenset[MemberPartition]:
    """Partitions by topic id, without those of topics that do not exist."""
    return frozenset(
        (topic.topic_id, number)
        for name, numbers in rows
        if (topic := topics.partitions_of(name)) is not None
        for number in numbers
    )


class MixedGroup(AssignedGroup):
    """The part of a consumer group's machine that speaks to members of the classic protocol."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.pending: dict[str, float] = {}  # ids given to clients that have not joined, by expiry
        self._handlers |= {
            Join: self._join,
            Sync: self._sync,
            Heartbeat: self._heartbeat,
            Leave: self._leave,
        }

    @abstractmethod
    def _succeed(self, former: ConsumerMember, event: Beat) -> ConsumerMember:
        """A new process takes the place of a static member."""

    @property
    def is_all_classic(self) -> bool:
        """Whether the group has members, and all of them speak the classic protocol."""
        members = self.roster.by_id.values()
        return bool(members) and all(member.is_classic for member in members)

    def take_over(self, members: Iterable[ConsumerMember]) -> None:
        """Go on with the members of a classic group, and with what they read."""
        for member in members:
            self.roster.add(member)
            self.target[member.member_id] = member.assigned
        self._look_up_topics()

    # -- joining -----------------------------------------------------------------------------

    def _join(self, event: Join, now_s: float) -> None:
        said = self._read(event)
        if isinstance(said, KafscaleError):
            self._answer(event.call, Rejected(said, event.member_id))
            return
        beat = Beat(
            call=event.call,
            fresh_id=event.member_id or event.fresh_id,
            instance_id=event.instance_id,
            rack=said.rack,
            rebalance_timeout_s=event.rebalance_timeout_s,
            names=said.topics,
            regex="",
            matched=frozenset(),
            assignor="",
            client_id=event.client_id,
            client_host=event.client_host,
        )
        member = self._find_or_admit_classic(event, beat, now_s)
        if isinstance(member, KafscaleError):
            is_new = isinstance(member, MemberIdRequired)
            refused = Rejected(member, event.fresh_id if is_new else event.member_id)
            self._answer(event.call, refused)
            return
        if self.roster.speak(member, tuple(event.protocols.items()), event.session_timeout_s):
            self._has_changed = True
        self._renew(member, now_s)
        if self.roster.update(member, beat):
            self._look_up_topics()
            self._raise_epoch()
        self._refresh(now_s)
        member.revoke_by_s = math.inf
        self._move_on(member, places_of(self._directory, said.owned), now_s)
        name = member.protocols[0][0]
        joined = Joined(member.member_id, member.epoch, CONSUMER_PROTOCOL_TYPE, name, leader="")
        self._answer(event.call, joined)

    def _read(self, event: Join) -> MemberSubscription | KafscaleError:
        """What a member says of itself, or why it cannot be a member."""
        rules = self._rules
        if not rules.shortest_session_s <= event.session_timeout_s <= rules.longest_session_s:
            return InvalidSessionTimeout(
                f"a session has {rules.shortest_session_s} to {rules.longest_session_s} seconds"
            )
        size = sum(len(name) + len(data) for name, data in event.protocols.items())
        if size > rules.most_metadata_bytes:
            return InvalidRequest(f"a member's metadata has {size} bytes")
        if event.protocol_type != CONSUMER_PROTOCOL_TYPE or not event.protocols:
            return InconsistentProtocol("the members of this group are consumers")
        common = self._common_protocols(event.member_id)
        if common is not None and not common & event.protocols.keys():
            return InconsistentProtocol("the group's members speak other protocols")
        known = self.roster.by_id.get(event.member_id)
        others = self.roster.held_bytes - (known.held_bytes if known is not None else 0)
        if others + size > rules.most_group_bytes:
            return GroupFull(f"the group's members may say {rules.most_group_bytes} bytes in all")
        said = self._codec.read_subscription(next(iter(event.protocols.values())))
        if said is None:
            return InconsistentProtocol("the subscription is not readable")
        return said

    def _common_protocols(self, joining_id: str) -> set[str] | None:
        """The protocols that all other classic members have; None if there are no others."""
        others = [
            {name for name, _ in member.protocols}
            for member in self.roster.by_id.values()
            if member.is_classic and member.member_id != joining_id
        ]
        return set.intersection(*others) if others else None

    def _find_or_admit_classic(
        self, event: Join, beat: Beat, now_s: float
    ) -> ConsumerMember | KafscaleError:
        if event.member_id:
            if event.instance_id is None and self.pending.pop(event.member_id, None) is not None:
                return self._admit(beat)
            return self._find_classic(event.member_id, event.instance_id)
        named = self.roster.with_instance(event.instance_id)
        if named is not None:
            if not named.is_classic and not named.is_away:
                return UnreleasedInstance("another member has this instance id")
            return self._succeed(named, beat)
        if event.instance_id is None and event.needs_id:
            if len(self.roster) + len(self.pending) >= self._times.most_members:
                return GroupFull(f"a group has at most {self._times.most_members} members")
            self.pending[event.fresh_id] = now_s + event.session_timeout_s
            return MemberIdRequired("join again with the id given")
        return self._admit(beat)

    # -- syncing and living --------------------------------------------------------------------

    def _find_classic(
        self, member_id: str, instance_id: str | None
    ) -> ConsumerMember | KafscaleError:
        member = self.roster.by_id.get(member_id)
        if instance_id is not None:
            member = self.roster.with_instance(instance_id)
            if member is not None and member.member_id != member_id:
                return FencedInstance(f"{instance_id!r} has been taken over by another process")
        if member is None or not member.is_classic:
            return UnknownMember("join the group first")
        return member

    def _find_current(self, event: Sync | Heartbeat) -> ConsumerMember | KafscaleError:
        member = self._find_classic(event.member_id, event.instance_id)
        if isinstance(member, ConsumerMember) and event.generation != member.epoch:
            return IllegalGeneration(f"the member is in generation {member.epoch}")
        return member

    def _sync(self, event: Sync, now_s: float) -> None:
        member = self._find_current(event)
        if isinstance(member, KafscaleError):
            self._answer(event.call, Rejected(member))
            return
        self._renew(member, now_s)
        name = event.protocol or member.protocols[0][0]
        kind = event.protocol_type or CONSUMER_PROTOCOL_TYPE
        if kind != CONSUMER_PROTOCOL_TYPE or name not in dict(member.protocols):
            self._answer(event.call, Rejected(InconsistentProtocol("not the member's protocol")))
        elif member.state is not MemberState.UNREVOKED and member.epoch != self.target_epoch:
            self._answer(event.call, Rejected(RebalanceInProgress("join again")))
        else:
            rows = [
                (topic, numbers)
                for topic_id, numbers in by_topic(member.assigned).items()
                if (topic := self.name_of(topic_id))
            ]
            assigned = self._codec.write_assignment(rows)
            self._answer(event.call, Synced(CONSUMER_PROTOCOL_TYPE, name, assigned))

    def _heartbeat(self, event: Heartbeat, now_s: float) -> None:
        member = self._find_current(event)
        if isinstance(member, KafscaleError):
            self._answer(event.call, Rejected(member))
            return
        self._renew(member, now_s)
        self._refresh(now_s)
        if self._must_join(member):
            member.revoke_by_s = min(member.revoke_by_s, now_s + member.rebalance_timeout_s)
            self._answer(event.call, Rejected(RebalanceInProgress("join again")))
        else:
            member.revoke_by_s = math.inf
            self._answer(event.call, Accepted())

    def _must_join(self, member: ConsumerMember) -> bool:
        """Whether a member gets other partitions by joining again."""
        if member.state is MemberState.UNREVOKED or member.epoch != self.target_epoch:
            return True
        missing = self.target.get(member.member_id, frozenset()) - member.assigned
        return any(not self.roster.is_held_by_others(place, member) for place in missing)

    def _refresh(self, now_s: float) -> None:
        """Take over changes of topics, and make the target that is due."""
        if self._directory.revision != self._revision and self._look_up_topics():
            self._raise_epoch()
        self._assign_if_due(now_s)

    # -- leaving -----------------------------------------------------------------------------

    def _leave(self, event: Leave, now_s: float) -> None:
        self._answer(event.call, Left(tuple(self._leave_one(*one) for one in event.leavers)))

    def _leave_one(self, member_id: str, instance_id: str | None) -> KafscaleError | None:
        if instance_id is None and self.pending.pop(member_id, None) is not None:
            return None
        named = self.roster.with_instance(instance_id)
        if named is not None and not member_id:
            member: ConsumerMember | KafscaleError = named  # an administrator removes it
        else:
            member = self._find_classic(member_id, instance_id)
        if isinstance(member, KafscaleError):
            return member
        self._remove(member)
        return None

    def _tick(self, event: Tick, now_s: float) -> None:
        self.pending = {key: until_s for key, until_s in self.pending.items() if until_s > now_s}
        super()._tick(event, now_s)
