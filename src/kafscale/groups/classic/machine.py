"""One classic group: its members, its generation, and the requests that wait.

Here: the state machine. Events come in with the time. Effects go out in the order in which the
shell must carry them out. A pair of state and transition that is not in the table is a bug.
Next door: the table (states.py), the roster (members.py), which joins are refused (admission.py),
deadlines of a rebalance (patience.py), events (events.py), effects (groups/events.py), the shell
with timers and futures (engine/coordinator/groups.py).
Never here: what an assignment means. The leader's bytes are handed on as they are.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from kafscale.groups.classic import admission
from kafscale.groups.classic.events import Heartbeat, Join, Joined, Leave, Left, Sync, Synced
from kafscale.groups.classic.members import Member, Roster
from kafscale.groups.classic.patience import Patience
from kafscale.groups.classic.snapshot import GroupSnapshot
from kafscale.groups.classic.states import NEXT, GroupState, Transition
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
    Tick,
    WakeAt,
)
from kafscale.groups.rules import GroupRules
from kafscale.model.errors import (
    FencedInstance,
    GroupIsGoing,
    GroupNotEmpty,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidRequest,
    KafscaleError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from kafscale.model.group_types import CLASSIC


class ClassicGroup:
    """The machine. `handle` is the only way in."""

    group_type: ClassVar[str] = CLASSIC

    def __init__(self, rules: GroupRules, generation: int = 0) -> None:
        self._rules = rules
        self._effects: list[Effect] = []
        self.state = GroupState.EMPTY
        self.roster = Roster()
        self.pending: dict[str, float] = {}  # ids given to clients that have not joined, by expiry
        self.protocol_type = ""
        self.protocol = ""
        self.generation = generation
        self._patience = Patience()
        self._handlers: dict[type[Any], Callable[[Any, float], None]] = {
            Join: self._join,
            Sync: self._sync,
            Heartbeat: self._heartbeat,
            CommitOffsets: self._commit,
            Leave: self._leave,
            Delete: self._delete,
            Tick: self._tick,
        }

    @classmethod
    def restored(cls, rules: GroupRules, saved: GroupSnapshot, now_s: float) -> "ClassicGroup":
        """The group as it was saved. Each member has a whole session to send a heartbeat."""
        group = cls(rules)
        group.generation = saved.generation
        group.protocol_type, group.protocol = saved.protocol_type, saved.protocol
        for saved_member in saved.members:
            member = Member.restored(saved_member)
            member.renew_session(now_s)
            group.roster.add(member)
        if saved.members:
            group.state = GroupState.STABLE
            group.roster.leader = saved.leader
        return group

    @classmethod
    def rebalancing(
        cls,
        rules: GroupRules,
        generation: int,
        protocol_type: str,
        members: Iterable[Member],
        now_s: float,
    ) -> "ClassicGroup":
        """A group whose members must join again; until then they may commit."""
        group = cls(rules, generation)
        group.protocol_type = protocol_type
        for member in members:
            group.roster.add(member)
        group.protocol = group.roster.vote()
        group._move(Transition.REBALANCE)
        group._patience = Patience.begun(now_s, group.roster.longest_rebalance_s())
        return group

    def waiting_calls(self) -> Iterator[Caller]:
        """The requests that have not been answered yet."""
        for member in self.roster.by_id.values():
            yield from (call for call in (member.joining, member.syncing) if call is not None)

    @property
    def is_idle(self) -> bool:
        """Whether the group is empty and has no deadline."""
        return self.state is GroupState.EMPTY and not self.pending

    def next_wake_s(self) -> float:
        """When a Tick is due next; infinity if no deadline is set."""
        times = [*self.pending.values()]
        times += [m.expires_s for m in self.roster.by_id.values() if not m.is_waiting]
        if self.state in (GroupState.PREPARING, GroupState.COMPLETING):
            times.append(self._patience.ends_s)
        return min(times, default=math.inf)

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """Handle one event; gives the effects, in the order in which to carry them out."""
        self._effects = []
        call = getattr(event, "call", None)
        if self.state is GroupState.DEAD and call is not None:
            self._answer(call, Rejected(GroupIsGoing("the group is being deleted")))
            return self._effects
        self._handlers[type(event)](event, now_s)
        if not isinstance(
            event, Heartbeat | CommitOffsets
        ):  # these only move deadlines further away
            self._try_to_complete(now_s)
            if (wake_s := self.next_wake_s()) < math.inf:
                self._effects.append(WakeAt(wake_s))
        return self._effects

    # -- joining -----------------------------------------------------------------------------

    def _join(self, event: Join, now_s: float) -> None:
        problem = admission.objection(
            event, self.roster, self.pending, self.protocol_type, self._rules
        )
        if problem is not None:
            self._answer(event.call, Rejected(problem, event.member_id))
        elif event.member_id:
            self._join_known(event, now_s)
        elif event.instance_id is not None:
            named = self.roster.with_instance(event.instance_id)
            if named is None:
                self._admit(event, event.fresh_id, now_s)
            else:
                self._replace(named, event, now_s)
        elif event.needs_id:
            self.pending[event.fresh_id] = now_s + event.session_timeout_s
            why = MemberIdRequired("join again with the id given")
            self._answer(event.call, Rejected(why, event.fresh_id))
        else:
            self._admit(event, event.fresh_id, now_s)

    def _join_known(self, event: Join, now_s: float) -> None:
        if event.instance_id is None and event.member_id in self.pending:
            del self.pending[event.member_id]
            self._admit(event, event.member_id, now_s)
            return
        member = self.roster.find(event.member_id, event.instance_id)
        if isinstance(member, KafscaleError):
            self._answer(event.call, Rejected(member, event.member_id))
            return
        is_same = list(member.protocols.items()) == list(event.protocols.items())
        leads = member.member_id == self.roster.leader
        settled = (GroupState.COMPLETING,) if leads else (GroupState.COMPLETING, GroupState.STABLE)
        if is_same and self.state in settled:
            # The reply was lost, or the member asks again: nothing has changed.
            member.renew_session(now_s)
            self._answer(event.call, self._joined(member))
            return
        self._wait_for_join(member, event)
        self._rebalance(now_s)

    def _admit(self, event: Join, member_id: str, now_s: float) -> None:
        if not len(self.roster):
            self.protocol_type = event.protocol_type
        member = Member(
            member_id,
            event.instance_id,
            event.client_id,
            event.client_host,
            event.session_timeout_s,
            event.rebalance_timeout_s,
            event.protocols,
            joining=event.call,
        )
        self.roster.add(member)
        if self.state is GroupState.PREPARING:
            self._patience.extend(now_s, self.roster.longest_rebalance_s())
        self._rebalance(now_s)

    def _wait_for_join(self, member: Member, event: Join) -> None:
        if member.joining is not None:
            self._answer(member.joining, Rejected(RebalanceInProgress("joined again")))
        self.roster.update(member, event)
        member.joining = event.call

    def _replace(self, member: Member, event: Join, now_s: float) -> None:
        """A new process takes the place of a static member."""
        old_leader = self.roster.leader
        for call in (member.joining, member.syncing):
            if call is not None:
                self._answer(call, Rejected(FencedInstance("taken over"), member.member_id))
        member.joining = member.syncing = None
        self.roster.rename(member, event.fresh_id)
        self.roster.update(member, event)
        if self.state is GroupState.STABLE and self.roster.vote() == self.protocol:
            leads = self.roster.leader == member.member_id
            member.renew_session(now_s)
            self._persist()
            if leads and not event.can_skip:
                # With the old id as the leader's, the new process does not consider itself the
                # leader. Otherwise it would compute an assignment that never reaches the members.
                place = replace(self._joined(member), leader=old_leader, members=())
            else:
                place = replace(self._joined(member), skip_assignment=leads)
            self._answer(event.call, place)
            return
        member.joining = event.call
        self._rebalance(now_s)

    def _joined(self, member: Member) -> Joined:
        leads = member.member_id == self.roster.leader
        return Joined(
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.roster.leader,
            self.roster.subscribers(self.protocol) if leads else (),
        )

    # -- rebalancing -------------------------------------------------------------------------

    def _move(self, transition: Transition) -> None:
        self.state = NEXT[self.state, transition]

    def _rebalance(self, now_s: float) -> None:
        """Begin a rebalance, unless one is being prepared already."""
        if self.state is GroupState.PREPARING:
            return
        delay_s = self._rules.initial_delay_s if self.state is GroupState.EMPTY else None
        self._move(Transition.REBALANCE)
        for member in self.roster.by_id.values():
            member.has_synced = False
            if member.syncing is not None:
                self._answer(member.syncing, Rejected(RebalanceInProgress("a rebalance began")))
                member.syncing = None
                member.renew_session(now_s)
        self._patience = Patience.begun(now_s, self.roster.longest_rebalance_s(), delay_s)

    def _try_to_complete(self, now_s: float) -> None:
        if self.state is not GroupState.PREPARING:
            return
        all_there = all(m.joining is not None for m in self.roster.by_id.values())
        is_over = all_there and not self.pending and not self._patience.is_for_more
        is_over = is_over or now_s >= self._patience.ends_s
        if is_over or not len(self.roster):
            self._complete(now_s)

    def _complete(self, now_s: float) -> None:
        for member in list(self.roster.by_id.values()):
            # A static member that is away may come back within its session.
            if member.joining is None and member.instance_id is None:
                self.roster.remove(member)
        if not self.roster.elect() and len(self.roster):
            self._patience = Patience.begun(now_s, self.roster.longest_rebalance_s())
            return
        self.generation += 1
        if not len(self.roster):
            self.protocol = ""
            self._move(Transition.EMPTIED)
            self._persist()
            return
        self.protocol = self.roster.vote()
        self._move(Transition.JOINED)
        self._patience = Patience.begun(now_s, self.roster.longest_rebalance_s())
        self.roster.assign({})
        for member in self.roster.by_id.values():
            member.former_generation = -1
            if member.joining is not None:
                call, member.joining = member.joining, None
                member.renew_session(now_s)
                self._answer(call, self._joined(member))

    # -- syncing -----------------------------------------------------------------------------

    def _sync(self, event: Sync, now_s: float) -> None:
        member = self._find_current(event)
        if isinstance(member, KafscaleError):
            self._answer(event.call, Rejected(member))
        elif (event.protocol_type or self.protocol_type) != self.protocol_type or (
            event.protocol or self.protocol
        ) != self.protocol:
            self._answer(event.call, Rejected(InconsistentProtocol("not the group's protocol")))
        elif (
            member.member_id == self.roster.leader  # what others assign is not kept
            and sum(map(len, event.assignments.values())) > self._rules.most_assigned_bytes
        ):
            self._answer(event.call, Rejected(InvalidRequest("the assignments are too large")))
        elif self.state is GroupState.PREPARING:
            self._answer(event.call, Rejected(RebalanceInProgress("join again")))
        elif self.state is GroupState.STABLE:
            self._hand_out(event.call, member, now_s)
        else:
            if member.syncing is not None:
                self._answer(member.syncing, Rejected(RebalanceInProgress("asked again")))
            member.syncing = event.call
            member.has_synced = True
            if member.member_id == self.roster.leader:
                self._assign(event, now_s)

    def _assign(self, event: Sync, now_s: float) -> None:
        self._move(Transition.ASSIGNED)
        self.roster.assign(event.assignments)
        self._persist()
        for member in self.roster.by_id.values():
            if member.syncing is not None:
                call, member.syncing = member.syncing, None
                self._hand_out(call, member, now_s)

    def _hand_out(self, call: Caller, member: Member, now_s: float) -> None:
        member.renew_session(now_s)
        self._answer(call, Synced(self.protocol_type, self.protocol, member.assignment))

    # -- living, committing, leaving ---------------------------------------------------------

    def _find_current(self, event: Sync | Heartbeat | CommitOffsets) -> Member | KafscaleError:
        member = self.roster.find(event.member_id, event.instance_id)
        if isinstance(member, Member) and event.generation not in (
            self.generation,
            member.former_generation,
        ):
            return IllegalGeneration(f"the group is in generation {self.generation}")
        return member

    def _heartbeat(self, event: Heartbeat, now_s: float) -> None:
        self._check_and_renew(event, GroupState.PREPARING, now_s)

    def _commit(self, event: CommitOffsets, now_s: float) -> None:
        if event.generation < 0 and self.state is GroupState.EMPTY:
            self._answer(event.call, Accepted())
        elif not self.generation and self.is_idle:
            self._answer(event.call, Rejected(IllegalGeneration("there is no such group")))
        else:
            # While other members join, a member may still commit for its old assignment.
            closed = None if event.is_transactional else GroupState.COMPLETING
            self._check_and_renew(event, closed, now_s)

    def _check_and_renew(
        self, event: Heartbeat | CommitOffsets, closed: GroupState | None, now_s: float
    ) -> None:
        member = self._find_current(event)
        if isinstance(member, KafscaleError):
            self._answer(event.call, Rejected(member))
            return
        member.renew_session(now_s)
        if self.state is closed:
            self._answer(event.call, Rejected(RebalanceInProgress("a rebalance is under way")))
        else:
            self._answer(event.call, Accepted())

    def _leave(self, event: Leave, now_s: float) -> None:
        gone = [self._leave_one(*leaver, now_s) for leaver in event.leavers]
        self._answer(event.call, Left(tuple(gone)))

    def _leave_one(
        self, member_id: str, instance_id: str | None, now_s: float
    ) -> KafscaleError | None:
        if instance_id is None and self.pending.pop(member_id, None) is not None:
            return None
        named = self.roster.with_instance(instance_id)
        if named is not None and not member_id:
            member_id = named.member_id  # an administrator knows the instance id alone
        member = self.roster.find(member_id, instance_id)
        if isinstance(member, Member):
            self._remove(member, now_s)
            return None
        return member

    def _remove(self, member: Member, now_s: float) -> None:
        for call in (member.joining, member.syncing):
            if call is not None:
                self._answer(
                    call, Rejected(UnknownMember("the member was removed"), member.member_id)
                )
        self.roster.remove(member)
        self._rebalance(now_s)

    def _delete(self, event: Delete, now_s: float) -> None:
        if self.state is not GroupState.EMPTY or self.pending:
            self._answer(event.call, Rejected(GroupNotEmpty("the group has members")))
        else:
            self._move(Transition.DELETED)
            self._answer(event.call, Accepted())

    # -- time --------------------------------------------------------------------------------

    def _tick(self, event: Tick, now_s: float) -> None:
        for member_id in [key for key, until_s in self.pending.items() if until_s <= now_s]:
            del self.pending[member_id]
        silent = [m for m in self.roster.by_id.values() if not m.is_waiting]
        for member in silent:
            if member.expires_s <= now_s:
                self._remove(member, now_s)
        if self.state is GroupState.COMPLETING and self._patience.ends_s <= now_s:
            # The leader has not assigned in time: rebalance without the members that never synced.
            for member in [m for m in self.roster.by_id.values() if not m.has_synced]:
                self._remove(member, now_s)

    # -- effects -----------------------------------------------------------------------------

    def _answer(self, call: Caller, outcome: GroupOutcome) -> None:
        self._effects.append(Reply(call, outcome))

    def _persist(self) -> None:
        members = tuple(member.snapshot() for member in self.roster.by_id.values())
        leader = self.roster.leader
        saved = GroupSnapshot(self.protocol_type, self.protocol, self.generation, leader, members)
        self._effects.append(Persist(saved))
