"""Which machine a group has: new, restored, or changed to another type.

Here: a group without members becomes of the type that a client asks for. A classic group of
consumers becomes a consumer group when a member of the newer protocol joins, and a consumer group
becomes classic when the last such member has gone.
Next door: how members are carried over (groups/migration.py), the shell around a machine
(groups.py).
"""

from dataclasses import replace

from kafscale.engine.coordinator.group_configs import GroupConfigs
from kafscale.groups.classic.events import Heartbeat, Join, Leave, Sync
from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.classic.snapshot import GroupSnapshot
from kafscale.groups.consumer.assigned import AssignedGroup, TopicDirectory
from kafscale.groups.consumer.events import Beat, Depart
from kafscale.groups.consumer.machine import ConsumerGroup
from kafscale.groups.consumer.member_data import MemberCodec
from kafscale.groups.consumer.snapshot import ConsumerSnapshot
from kafscale.groups.events import Event
from kafscale.groups.machines import ASSIGNED_GROUPS, GroupMachine
from kafscale.groups.migration import downgraded, upgraded
from kafscale.groups.rules import GroupRules
from kafscale.model.clock import Clock
from kafscale.model.errors import GroupNotFound, InconsistentProtocol, UnknownMember
from kafscale.model.group_types import CONSUMER, SHARE


class GroupMachines:
    """Makes the machines of groups."""

    def __init__(
        self,
        rules: GroupRules,
        topics: TopicDirectory,
        codec: MemberCodec,
        configs: GroupConfigs,
        clock: Clock,
    ) -> None:
        self._rules = rules
        self._topics = topics
        self._codec = codec
        self._configs = configs
        self._clock = clock

    def new(self) -> GroupMachine:
        """The machine of a group that was never saved."""
        return ClassicGroup(self._rules)

    def restored(self, group_id: str, saved: GroupSnapshot | ConsumerSnapshot) -> GroupMachine:
        """The machine of a group as it was saved."""
        now_s = self._clock.elapsed_s()
        if isinstance(saved, ConsumerSnapshot):
            kind = ASSIGNED_GROUPS[saved.group_type]
            rules = self.rules_of(group_id)
            return self.settled(kind.restored(rules, self._topics, saved, now_s, self._codec))
        return ClassicGroup.restored(self._rules, saved, now_s)

    def rules_of(self, group_id: str) -> GroupRules:
        """The limits of a group that the coordinator assigns partitions to."""
        own = self._configs.of(group_id)
        rules = self._rules
        return replace(
            rules,
            consumer_session_s=own.seconds("consumer.session.timeout.ms")
            or rules.consumer_session_s,
            consumer_heartbeat_s=own.seconds("consumer.heartbeat.interval.ms")
            or rules.consumer_heartbeat_s,
            share_session_s=own.seconds("share.session.timeout.ms") or rules.share_session_s,
            share_heartbeat_s=own.seconds("share.heartbeat.interval.ms") or rules.share_heartbeat_s,
        )

    def suited(self, group_id: str, machine: GroupMachine, event: Event) -> GroupMachine:
        """The machine that handles an event. Raises an error if members of the group forbid it."""
        if isinstance(event, Beat | Depart):
            return self._suited_to_newer(group_id, machine, event)
        if not isinstance(event, Join | Sync | Heartbeat | Leave) or not isinstance(
            machine, AssignedGroup
        ):
            return machine
        if machine.group_type == SHARE:
            raise InconsistentProtocol("this is a share group")
        return ClassicGroup(self._rules, machine.epoch) if machine.is_idle else machine

    def _suited_to_newer(
        self, group_id: str, machine: GroupMachine, event: Beat | Depart
    ) -> GroupMachine:
        wanted = event.group_type
        if machine.group_type == wanted:
            return machine
        is_new = isinstance(event, Beat) and event.epoch == 0
        may_upgrade = isinstance(machine, ClassicGroup) and wanted == CONSUMER
        if machine.group_type == SHARE or not (machine.is_idle or may_upgrade):
            raise GroupNotFound(f"this is a {machine.group_type} group")
        if not is_new:
            raise UnknownMember("join the group first")
        rules = self.rules_of(group_id)
        if isinstance(machine, ClassicGroup) and not machine.is_idle:
            return upgraded(machine, rules, self._topics, self._codec, self._clock.elapsed_s())
        return ASSIGNED_GROUPS[wanted](rules, self._topics, self._codec, machine.generation)

    def settled(self, machine: GroupMachine, before: GroupMachine | None = None) -> GroupMachine:
        """The machine after an event: classic if all members of a consumer group are.

        `before` is the machine before it was suited to the event. If that was a classic group, it
        refused the first member of the newer protocol, and nothing has changed.
        """
        if not isinstance(machine, ConsumerGroup) or not machine.is_all_classic:
            return machine
        if isinstance(before, ClassicGroup):
            return before
        return downgraded(machine, self._rules, self._clock.elapsed_s())
