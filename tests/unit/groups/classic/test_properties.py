"""Any interleaving of what members do, time, and restarts of the broker keeps a group's promises.

Next door: the same with random walks that are longer and less clever (test_interleavings.py).
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from kafscale.groups.classic.events import Joined, Synced
from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.classic.states import GroupState
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.groups.rules import GroupRules
from kafscale.model.errors import (
    FencedInstance,
    IllegalGeneration,
    MemberIdRequired,
    UnknownMember,
)
from tests.support.examples import examples
from tests.unit.groups.classic.group_harness import Bench

PARTITIONS = range(4)
LONGEST_SESSION_S, LONGEST_REBALANCE_S = 30.0, 40.0
PROTOCOLS = ({"a": b"1"}, {"a": b"2", "b": b""}, {"b": b"", "a": b"3"})

sessions = st.sampled_from([6.0, 10.0, LONGEST_SESSION_S])
rebalances = st.sampled_from([5.0, 20.0, LONGEST_REBALANCE_S])


class GroupLife(RuleBasedStateMachine):
    """Members with real ids, an honest leader, and a book of what each member was told."""

    members = Bundle("members")  # ids given out, alive or long gone
    instances = st.sampled_from([None, None, None, "i", "j"])

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.waiting: dict[int, str] = {}  # calls without answer, by whom
        self.asked_s: dict[int, float] = {}
        self.told: set[int] = set()
        self.generation = 0
        self.plans: dict[int, dict[str, bytes]] = {}  # by generation: what the leader brought
        self.owner: dict[tuple[int, int], str] = {}  # generation, partition: by first id
        self.ids: dict[str, list[str]] = {}  # all that a static member had before this one
        self.of_instance: dict[str, str] = {}
        self.heard_s: dict[str, float] = {}  # when a member was last known to be there

    @initialize(delay_s=st.sampled_from([0.0, 3.0]), most=st.sampled_from([2, 4]))
    def begin(self, delay_s: float, most: int) -> None:
        self.bench = Bench(GroupRules(initial_delay_s=delay_s, most_members=most))

    # -- what can happen ---------------------------------------------------------------------

    @rule(
        target=members,
        instance=instances,
        session_s=sessions,
        rebalance_s=rebalances,
        protocols=st.sampled_from(PROTOCOLS),
        needs_id=st.booleans(),
        can_skip=st.booleans(),
    )
    def join(self, instance: str | None, session_s: float, rebalance_s: float, **more: Any) -> str:
        return self.do_join("", instance, session_s, rebalance_s, **more)

    @rule(
        member=members,
        session_s=sessions,
        rebalance_s=rebalances,
        protocols=st.sampled_from(PROTOCOLS),
    )
    def join_again(self, member: str, session_s: float, rebalance_s: float, **more: Any) -> None:
        self.do_join(member, self.instance_of(member), session_s, rebalance_s, **more)

    def do_join(
        self, member: str, instance: str | None, session_s: float, rebalance_s: float, **more: Any
    ) -> str:
        call = self.bench.join(
            member,
            instance_id=instance,
            session_timeout_s=session_s,
            rebalance_timeout_s=rebalance_s,
            **more,
        )
        fresh = member or f"m{call}"
        if not member and instance is not None:
            before = self.of_instance.get(instance)
            if before is not None and fresh in self.bench.group.roster.by_id:
                # It takes over the place, and what the place was assigned.
                self.ids[fresh] = [before, *self.ids.get(before, ())]
            if fresh in self.bench.group.roster.by_id:
                self.of_instance[instance] = fresh
        self.note(call, fresh)
        return fresh

    def instance_of(self, member: str) -> str | None:
        return next((name for name, who in self.of_instance.items() if who == member), None)

    @rule(member=members, behind=st.sampled_from([0, 0, 0, 1]), deal=st.randoms())
    def sync(self, member: str, behind: int, deal: Any) -> None:
        group = self.bench.group
        shares: dict[str, bytes] = {}
        if member == group.roster.leader:
            plan: dict[str, list[int]] = {name: [] for name in group.roster.by_id}
            for partition in PARTITIONS:
                plan[deal.choice(sorted(plan))].append(partition)
            shares = {name: bytes(share) for name, share in plan.items()}
            if group.state is GroupState.COMPLETING and not behind:
                self.plans[group.generation] = shares
        instance = self.instance_of(member)
        call = self.bench.sync(
            member, group.generation - behind, instance_id=instance, assignments=shares
        )
        self.note(call, member)

    @rule(member=members, behind=st.sampled_from([0, 0, 1]))
    def heartbeat(self, member: str, behind: int) -> None:
        generation = self.bench.group.generation - behind
        call = self.bench.heartbeat(member, generation, instance_id=self.instance_of(member))
        self.note(call, member)

    @rule(member=members)
    def commit(self, member: str) -> None:
        generation = self.bench.group.generation
        call = self.bench.commit(member, generation, instance_id=self.instance_of(member))
        self.note(call, member)

    @rule(member=consumes(members))
    def leave(self, member: str) -> None:
        self.note(self.bench.leave((member, self.instance_of(member))), "")
        assert member not in self.bench.group.roster.by_id

    @rule(leader_too=st.booleans())
    def everybody_does_what_it_should(self, leader_too: bool) -> None:
        """All join and sync, the leader last or not yet: by chance few groups would come so far."""
        group = self.bench.group
        for member in list(group.roster.by_id.values()):
            if group.state is GroupState.PREPARING and member.joining is None:
                self.do_join(
                    member.member_id,
                    member.instance_id,
                    member.session_timeout_s,
                    member.rebalance_timeout_s,
                    protocols=member.protocols,
                )
        leader = group.roster.leader
        if group.state is GroupState.COMPLETING:
            names = sorted(group.roster.by_id, key=lambda name: name == leader)
            count = len(names)
            shares = {name: bytes(PARTITIONS[at::count]) for at, name in enumerate(names)}
            for name in names if leader_too else names[:-1]:
                if name == leader:
                    self.plans[group.generation] = shares
                call = self.bench.sync(
                    name,
                    group.generation,
                    instance_id=group.roster.by_id[name].instance_id,
                    assignments=shares if name == leader else {},
                )
                self.note(call, name)

    @rule(seconds=st.sampled_from([0.1, 2.9, 3.0, 6.0, 11.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.pass_s(seconds)
        self.look()

    @rule()
    def the_broker_starts_again(self) -> None:
        """Calls that wait lose their connection; the new broker knows only what was saved."""
        bench = self.bench
        fresh = ClassicGroup(bench.rules)
        if bench.saved:
            fresh = ClassicGroup.restored(bench.rules, bench.saved[-1], bench.now_s)
        bench.group = fresh
        self.generation = fresh.generation
        for call in list(self.waiting):
            del self.waiting[call], self.asked_s[call]
        for name, member in fresh.roster.by_id.items():
            self.heard_s[name] = bench.now_s
            if member.instance_id is not None:
                self.of_instance[member.instance_id] = name

    # -- the book ----------------------------------------------------------------------------

    def note(self, call: int, who: str) -> None:
        self.waiting[call] = who
        self.asked_s[call] = self.bench.now_s
        self.look()

    def look(self) -> None:
        """Take up the answers that have come."""
        for call in sorted(self.bench.answers.keys() - self.told):
            self.told.add(call)
            who = self.waiting.pop(call, "")
            self.asked_s.pop(call, None)
            outcome = self.bench.outcome(call)
            self.judge(who, outcome)
            gone = (UnknownMember, FencedInstance, IllegalGeneration)
            if who and not (isinstance(outcome, Rejected) and isinstance(outcome.problem, gone)):
                self.heard_s[who] = self.bench.now_s

    def judge(self, who: str, outcome: GroupOutcome) -> None:
        if isinstance(outcome, Joined):
            assert outcome.member_id == who
            assert 0 < outcome.generation <= self.bench.group.generation
            names = [row.member_id for row in outcome.members]
            assert not names or outcome.leader == who or outcome.skip_assignment
            assert len(set(names)) == len(names)
        elif isinstance(outcome, Synced):
            generation = self.bench.group.generation
            plan, ids = self.plans[generation], [who, *self.ids.get(who, ())]
            expected = next((plan[name] for name in ids if name in plan), b"")
            assert outcome.assignment == expected, "the leader's bytes, and nothing else"
            for partition in outcome.assignment:
                owner = self.owner.setdefault((generation, partition), ids[-1])
                assert owner == ids[-1], "two owners in one generation"
        elif isinstance(outcome, Rejected) and isinstance(outcome.problem, MemberIdRequired):
            assert outcome.member_id == who
            assert who in self.bench.group.pending

    # -- what must hold ----------------------------------------------------------------------

    @invariant()
    def generations_rise(self) -> None:
        assert self.bench.group.generation >= self.generation
        self.generation = self.bench.group.generation

    @invariant()
    def no_member_stays_that_was_silent_for_a_session(self) -> None:
        waits = set(self.waiting.values())
        for name, member in self.bench.group.roster.by_id.items():
            if name not in waits:
                silent_s = self.bench.now_s - self.heard_s.get(name, 0.0)
                assert silent_s < member.session_timeout_s, f"{name}: {silent_s} s"

    @invariant()
    def no_call_waits_beyond_every_deadline(self) -> None:
        longest_s = 2 * (LONGEST_REBALANCE_S + LONGEST_SESSION_S)
        for call, asked_s in self.asked_s.items():
            assert self.bench.now_s - asked_s <= longest_s, f"call {call}"

    @invariant()
    def a_group_is_led_by_one_of_its_members_and_not_too_large(self) -> None:
        group = self.bench.group
        assert len(group.roster) <= self.bench.rules.most_members
        if group.state is GroupState.EMPTY:
            assert not len(group.roster)
        else:
            assert group.roster.leader in group.roster.by_id

    @invariant()
    def the_group_wakes_while_calls_wait_or_members_are_there(self) -> None:
        if self.waiting or len(self.bench.group.roster):
            assert self.bench.group.next_wake_s() < float("inf")

    def teardown(self) -> None:
        """Without another request, every call that waits is answered and the group empties."""
        self.bench.pass_s(4 * (LONGEST_REBALANCE_S + LONGEST_SESSION_S))
        self.look()
        assert self.waiting == {}
        assert self.bench.group.is_idle
        assert not len(self.bench.group.roster)


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(examples(250), stateful_step_count=40)
