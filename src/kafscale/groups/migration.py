"""Groups that change their type while their members run.

Here: how a classic group becomes a consumer group when a member of the newer protocol joins, and
how a consumer group becomes classic again when the last such member has gone. Each member keeps
what it reads until it has joined again.
Next door: the machines (classic/machine.py, consumer/machine.py), when this happens
(engine/coordinator/groups.py).
"""

from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.classic.members import Member
from kafscale.groups.classic.states import GroupState
from kafscale.groups.consumer.assigned import TopicDirectory
from kafscale.groups.consumer.machine import ConsumerGroup
from kafscale.groups.consumer.member_data import MemberCodec
from kafscale.groups.consumer.members import ConsumerMember, MemberState
from kafscale.groups.consumer.mixed import CONSUMER_PROTOCOL_TYPE, places_of
from kafscale.groups.rules import GroupRules
from kafscale.model.errors import GroupIsRebalancing, GroupNotFound


def upgraded(
    group: ClassicGroup,
    rules: GroupRules,
    topics: TopicDirectory,
    codec: MemberCodec,
    now_s: float,
) -> ConsumerGroup:
    """A consumer group with the members of a classic group.

    Raises GroupNotFound if its members are no consumers, or read more than their bytes say, and
    GroupIsRebalancing if it is not decided at present which member reads what.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise GroupNotFound(f"this is a classic group of type {group.protocol_type!r}")
    if group.state is not GroupState.STABLE:
        raise GroupIsRebalancing("the members of the classic group are joining")
    mixed = ConsumerGroup(rules, topics, codec, group.generation)
    members = [
        _translated(member, group.generation, topics, codec)
        for member in group.roster.by_id.values()
    ]
    given = [place for member in members for place in member.assigned]
    if len(given) != len(set(given)):
        raise GroupNotFound("members of the classic group read the same partitions")
    taken = set(given)
    for member in members:
        # What it read before, and may not have given up yet, if no other member has it.
        member.revoking -= taken
        taken |= member.revoking
        if member.revoking:
            member.state = MemberState.UNREVOKED
            member.revoke_by_s = now_s + member.rebalance_timeout_s
        member.expires_s = now_s + member.session_timeout_s
    mixed.take_over(members)
    mixed.pending = dict(group.pending)
    return mixed


def _translated(
    member: Member, generation: int, topics: TopicDirectory, codec: MemberCodec
) -> ConsumerMember:
    protocols = tuple(member.protocols.items())
    said = codec.read_subscription(protocols[0][1])
    assigned = codec.read_assignment(member.assignment)
    if said is None or assigned is None:
        raise GroupNotFound("what members of the classic group read is not known")
    return ConsumerMember(
        member.member_id,
        member.instance_id,
        said.rack,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_s,
        said.topics,
        epoch=generation,
        previous_epoch=generation,
        assigned=places_of(topics, assigned),
        revoking=places_of(topics, said.owned),
        protocols=protocols,
        session_timeout_s=member.session_timeout_s,
    )


def downgraded(group: ConsumerGroup, rules: GroupRules, now_s: float) -> ClassicGroup:
    """A classic group of the members that are left. They are told to join again."""
    members = (_restored(member, now_s) for member in group.roster.by_id.values())
    classic = ClassicGroup.rebalancing(rules, group.epoch, CONSUMER_PROTOCOL_TYPE, members, now_s)
    classic.pending = dict(group.pending)
    return classic


def _restored(member: ConsumerMember, now_s: float) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_s,
        member.rebalance_timeout_s,
        dict(member.protocols),
        expires_s=now_s + member.session_timeout_s,
        former_generation=member.epoch,
    )
