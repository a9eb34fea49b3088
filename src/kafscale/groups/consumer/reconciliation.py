"""How a member of a consumer group moves to its target, one heartbeat at a time.

Here: the rule that makes the protocol safe. A partition is given to a member only when no other
member has it, or has still to give it up. So no two members ever read a partition at once.
Next door: what the target is (assignors.py), when this is done (machine.py).
"""

from kafscale.groups.consumer.events import MemberPartition
from kafscale.groups.consumer.members import ConsumerMember, ConsumerRoster, MemberState


def reconcile(
    roster: ConsumerRoster,
    member: ConsumerMember,
    target: frozenset[MemberPartition],
    target_epoch: int,
    owned: frozenset[MemberPartition] | None,
) -> bool:
    """Move a member as far as it can go now. Whether it has moved.

    `owned` is what the member says that it reads; None if it does not say.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return False
    before = (member.epoch, member.state, member.assigned, member.revoking)
    if member.state is MemberState.UNREVOKED and (owned is None or owned & member.revoking):
        return False  # it has not given up yet what it was told to give up
    keep = member.assigned & target
    revoke = member.assigned - keep
    if revoke and (owned is None or owned & revoke):
        roster.hold(member, keep, revoke)
        member.state = MemberState.UNREVOKED
    else:
        free = {place for place in target - keep if not roster.is_held_by_others(place, member)}
        roster.hold(member, keep | free, frozenset())
        if member.epoch != target_epoch:
            member.previous_epoch, member.epoch = member.epoch, target_epoch
        is_whole = len(member.assigned) == len(target)
        member.state = MemberState.STABLE if is_whole else MemberState.UNRELEASED
    return before != (member.epoch, member.state, member.assigned, member.revoking)
