"""The groups that this broker coordinates: one machine per group, timers, waiting calls.

Here: the shell around the state machine. The broker reads a group from the metadata store when a
client first asks for it. It writes a group when a rebalance is complete, before members hear of
their assignments: a broker that was restarted goes on with the same generation. Heartbeats are
never written. Every write compares the broker's claim to the group; a broker that has lost a group
drops it at once.
Next door: the rules (groups/classic/machine.py, groups/consumer/machine.py), the JSON (records.py),
claims (claims.py), offsets (offsets.py), when groups expire (expiry.py).
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.claims import ClaimEvents, Claims
from kafscale.engine.coordinator.group_configs import GroupConfigs
from kafscale.engine.coordinator.group_machines import GroupMachines
from kafscale.engine.coordinator.listing import Listed, stored_groups
from kafscale.engine.coordinator.member_memory import MemberMemory
from kafscale.engine.coordinator.offsets import check_group_id
from kafscale.engine.coordinator.records import GroupRecords
from kafscale.groups.classic.states import GroupState
from kafscale.groups.consumer.assigned import AssignedGroup, ConsumerGroupState, TopicDirectory
from kafscale.groups.events import (
    Delete,
    Event,
    GroupOutcome,
    Persist,
    Rejected,
    Reply,
    Snapshot,
    Tick,
    WakeAt,
)
from kafscale.groups.machines import GroupMachine
from kafscale.groups.rules import GroupRules
from kafscale.metadata import keys
from kafscale.metadata.store import MAX_OPERATIONS, MetadataStore, Put, Remove
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import (
    CorruptObject,
    GroupNotEmpty,
    GroupNotFound,
    KafscaleError,
    MetadataConflict,
    MetadataUnavailable,
    NotTheCoordinator,
)
from kafscale.model.topics import iso_time
from kafscale.tasks import Tasks

logger = structlog.get_logger()

_MOST_IDLE: Final = 10_000  # groups without members kept in memory, to be spared reading them
_SHORTEST_TIMER_S: Final = 0.01
_QUICK_BYTES: Final = 64 << 10  # what the event loop encodes by itself
_LONGEST_PREFIX: Final = 255  # of a member id: what clients call themselves can be very long


@dataclass(slots=True)
class LoadedGroup:
    """A group in memory: its machine, its timer, what is not saved yet."""

    group_id: str
    machine: GroupMachine
    unsaved: Snapshot | None = None
    changed_at: str = ""
    is_lost: bool = False
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)
    timer: asyncio.TimerHandle | None = None
    wakes_s: float = math.inf

    def stop_timer(self) -> None:
        """Cancel the timer, if one runs."""
        if self.timer is not None:
            self.timer.cancel()

    def refuse_waiters(self) -> None:
        """Refuse all calls that wait: their members must find the new coordinator."""
        gone = Rejected(NotTheCoordinator("another broker has taken the group"))
        for call in self.machine.waiting_calls():
            _resolve(Reply(call, gone))


class Groups(ClaimEvents):
    """All groups that this broker coordinates."""

    def __init__(
        self,
        metadata: MetadataStore,
        records: GroupRecords,
        rules: GroupRules,
        clock: Clock,
        dice: Dice,
        tasks: Tasks,
        cluster: Membership,
        topics: TopicDirectory,
        configs: GroupConfigs,
        on_rebalanced: Callable[[], None],
    ) -> None:
        """Read each group when it is first asked for. `on_rebalanced` counts rebalances."""
        self._metadata = metadata
        self._records = records
        self._cluster = cluster
        self.configs = configs
        self._machines = GroupMachines(rules, topics, records.codec, configs, clock)
        configs.listen(self._configs_changed)
        self.claims = Claims(metadata, cluster, clock, self)
        self._on_rebalanced = on_rebalanced
        self._clock = clock
        self._dice = dice
        self._tasks = tasks
        self._loaded: dict[str, LoadedGroup] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._lost: set[str] = set()  # to another broker, and not read again since
        self.memory = MemberMemory(rules.most_bytes_in_all)

    async def aclose(self) -> None:
        """Stop the timers and write what is not written yet."""
        for group in list(self._loaded.values()):
            group.stop_timer()
            await self._save_or_warn(group)

    # -- asking ------------------------------------------------------------------------------

    def is_loaded(self, group_id: str) -> bool:
        """Whether `ask` can be answered without the store."""
        return group_id in self._loaded

    async def load(self, group_id: str) -> None:
        """Read a group, once for all callers; a group that was never saved begins empty."""
        check_group_id(group_id)
        await self._cluster.require_group(group_id)
        if group_id in self._loaded:
            return
        task = self._loading.get(group_id)
        if task is None:
            task = self._tasks.spawn(self._load(group_id), f"group {group_id}", awaited=True)
            self._loading[group_id] = task
            task.add_done_callback(lambda _: self._loading.pop(group_id, None))
        await asyncio.shield(task)

    async def _get(self, group_id: str) -> LoadedGroup:
        while (group := self._loaded.get(group_id)) is None:
            await self.load(group_id)
        return group

    async def _load(self, group_id: str) -> None:
        entry = await self.claims.load(group_id)
        machine = self._machines.new()
        if entry is not None:
            try:
                machine = self._machines.restored(group_id, self._records.decode(entry.value))
            except CorruptObject as problem:
                # Its members are told that they are unknown and join again; offsets are elsewhere.
                logger.error("group_unreadable", group=group_id, error=str(problem))
        if not self._cluster.may_coordinate(group_id):
            self.claims.discard(group_id)
            raise NotTheCoordinator(f"group {group_id!r} has become another broker's")
        self._drop_idle()
        self._lost.discard(group_id)
        group = self._loaded[group_id] = LoadedGroup(group_id, machine)
        self.memory.note(group_id, machine)
        self._wake_at(group, machine.next_wake_s())

    def _configs_changed(self, group_id: str) -> None:
        group = self._loaded.get(group_id)
        if group is not None and isinstance(group.machine, AssignedGroup):
            group.machine.change_rules(self._machines.rules_of(group_id))

    def _drop_idle(self) -> None:
        """Make room: an empty group that is saved can be read again."""
        if len(self._loaded) < _MOST_IDLE:
            return
        self._lost.clear()
        idle = [
            group_id
            for group_id, group in self._loaded.items()
            if group.machine.is_idle and group.unsaved is None and not group.saving.locked()
        ]
        for group_id in idle[: _MOST_IDLE // 2]:
            self._drop(group_id)

    def _drop(self, group_id: str) -> None:
        """Drop a group from memory: it is read again when a client asks for it."""
        group = self._loaded.pop(group_id, None)
        self.claims.discard(group_id)
        if group is not None:
            group.stop_timer()
            self.memory.forget(group_id)

    def claim_lost(self, group_id: str) -> None:
        """Another broker coordinates this group now: refuse the calls that wait here."""
        group = self._loaded.get(group_id)
        if group is None:
            return
        group.is_lost = True
        self._lost.add(group_id)
        self._drop(group_id)
        group.refuse_waiters()

    def release(self) -> Coroutine[None, None, None]:
        """Stop coordinating, now, groups that other brokers have; the coroutine saves them."""
        lost = [
            group for name, group in self._loaded.items() if not self._cluster.may_coordinate(name)
        ]
        for group in lost:
            group.stop_timer()
            group.refuse_waiters()
        return self._save_and_lose(lost)

    async def _save_and_lose(self, lost: Sequence[LoadedGroup]) -> None:
        for group in lost:
            await self._save_or_warn(group)
            if self._loaded.get(group.group_id) is group:
                self.claim_lost(group.group_id)

    def drop(self) -> None:
        """Drop every group at once: the lease is lost."""
        for group_id in list(self._loaded):
            self.claim_lost(group_id)

    def fresh_member_id(self, prefix: str) -> str:
        """A member id that was never used."""
        token = self._dice.token(16).hex()
        parts = (token[:8], token[8:12], token[12:16], token[16:20], token[20:])
        return "-".join((prefix[:_LONGEST_PREFIX], *parts))

    def ask(self, group_id: str, event: Event) -> "asyncio.Future[GroupOutcome]":
        """Let the machine handle an event now; gives the future that the event has as its `call`.

        The group must be loaded: requests of a connection are handled in their order, so there
        must be no wait in between.
        """
        check_group_id(group_id)
        group = self._loaded.get(group_id)
        if not self._cluster.may_coordinate(group_id) or (group is None and group_id in self._lost):
            raise NotTheCoordinator(f"group {group_id!r} is another broker's")
        if group is None:
            raise MetadataUnavailable(f"group {group_id!r} could not be read")
        call = getattr(event, "call", None)
        assert isinstance(call, asyncio.Future)
        self.memory.require_room(group.machine, event)
        before = group.machine
        group.machine = self._machines.suited(group_id, before, event)
        self._handle(group, event, before)
        return call

    async def require_type(self, group_id: str, group_type: str) -> None:
        """Raise GroupNotFound if there is a group of another type, even one without members."""
        machine = (await self._get(group_id)).machine
        if machine.group_type != group_type and not (
            machine.is_idle and not await self._is_known(group_id)
        ):
            raise GroupNotFound(f"this is a {machine.group_type} group")

    def regex_to_match_again(self, group_id: str, member_id: str) -> str | None:
        """The pattern of a member if topics have changed since it was matched; else None."""
        group = self._loaded.get(group_id)
        if group is None or not isinstance(group.machine, AssignedGroup):
            return None
        return group.machine.regex_to_match_again(member_id)

    def new_call(self) -> "asyncio.Future[GroupOutcome]":
        """A future for an event to have as its `call`."""
        return asyncio.get_running_loop().create_future()

    async def settled(
        self, group_id: str, waiting: "asyncio.Future[GroupOutcome]", member_id: str
    ) -> GroupOutcome:
        """Wait for the outcome, and until the group is saved."""
        group = self._loaded.get(group_id)  # before the wait: the group may be lost meanwhile
        outcome = await waiting
        if group is not None and not isinstance(outcome, Rejected):
            try:
                await self._save(group)
            except KafscaleError as problem:
                return Rejected(problem, member_id)
        return outcome

    def _handle(self, group: LoadedGroup, event: Event, before: GroupMachine | None = None) -> None:
        generation = group.machine.generation
        for effect in group.machine.handle(event, self._clock.elapsed_s()):
            if isinstance(effect, Persist):
                group.unsaved = effect.snapshot
                group.changed_at = iso_time(self._clock.now_ms())
            elif isinstance(effect, WakeAt):
                self._wake_at(group, effect.at_s)
            else:
                _resolve(effect)
        is_rebalanced = group.machine.generation != generation
        settled = self._machines.settled(group.machine, before)
        if settled is not group.machine:
            group.machine = settled
            self._wake_at(group, settled.next_wake_s())
        if self._loaded.get(group.group_id) is group:
            self.memory.note(group.group_id, group.machine)
        if is_rebalanced:
            self._note_rebalance(group)
        if group.unsaved is not None and not group.saving.locked():
            self._tasks.spawn(self._save_or_warn(group), f"saving group {group.group_id}")

    def _note_rebalance(self, group: LoadedGroup) -> None:
        machine = group.machine
        self._on_rebalanced()
        logger.info(
            "consumer_rebalance",
            group_id=group.group_id,
            generation=machine.generation,
            member_count=len(machine.roster),
        )

    # -- time --------------------------------------------------------------------------------

    def _wake_at(self, group: LoadedGroup, at_s: float) -> None:
        """Have a timer that is early enough; an early timer does no harm."""
        if at_s == math.inf or group.wakes_s <= at_s:
            return
        group.stop_timer()
        group.wakes_s = at_s
        delay_s = max(at_s - self._clock.elapsed_s(), _SHORTEST_TIMER_S)
        group.timer = asyncio.get_running_loop().call_later(delay_s, self._wake, group)

    def _wake(self, group: LoadedGroup) -> None:
        group.timer, group.wakes_s = None, math.inf
        self._handle(group, Tick())

    # -- saving ------------------------------------------------------------------------------

    async def _save(self, group: LoadedGroup) -> None:
        """Write the newest snapshot; many calls at once cause one write."""
        async with group.saving:
            while (snapshot := group.unsaved) is not None:
                if group.is_lost:
                    raise NotTheCoordinator(f"group {group.group_id!r} is another broker's")
                guard = await self.claims.claim(group.group_id)
                value = await self._encode(group, snapshot)
                try:
                    await self._metadata.commit(
                        [Put(keys.group_metadata(group.group_id), value)], [guard]
                    )
                except MetadataConflict:
                    raise self.claims.lost(group.group_id, guard) from None
                if group.unsaved is snapshot:
                    group.unsaved = None

    async def _encode(self, group: LoadedGroup, snapshot: Snapshot) -> bytes:
        """The value to save; a group that says much about itself is encoded beside the loop."""
        taken = snapshot.take()
        encode = partial(self._records.encode, group.group_id, taken, group.changed_at)
        is_quick = group.machine.roster.held_bytes <= _QUICK_BYTES
        return encode() if is_quick else await asyncio.to_thread(encode)

    async def is_saved(self, group_id: str) -> bool:
        """Whether the store has a group as it is here; if not it is written now."""
        group = self._loaded.get(group_id)
        if group is None or (group.unsaved is None and not group.saving.locked()):
            return True
        await self._save(group)
        return False

    async def _save_or_warn(self, group: LoadedGroup) -> None:
        try:
            await self._save(group)
        except KafscaleError as problem:
            # The next event of the group tries again.
            logger.warning("group_not_saved", group=group.group_id, error=str(problem))

    # -- describing and deleting ----------------------------------------------------------------

    async def describe(self, group_id: str) -> GroupMachine | None:
        """The group as it is now; None if there is none."""
        machine = (await self._get(group_id)).machine
        if machine.state.value == GroupState.DEAD.value:
            return None
        if machine.is_idle and not await self._is_known(group_id):
            return None
        return machine

    async def _is_known(self, group_id: str) -> bool:
        """Whether there is anything but a claim."""
        entries = await self._metadata.find(keys.group(group_id), limit=2)
        return any(entry.key != keys.group_coordinator(group_id) for entry in entries)

    async def list_subscribed_topics(self, group_id: str) -> frozenset[str]:
        """The topics that a group's members read; raises GroupNotEmpty if that is not known."""
        machine = await self.describe(group_id)
        if machine is None:
            raise GroupNotFound(f"there is no group {group_id!r}")
        if machine.is_idle:
            return frozenset()
        subscribed = self._records.subscribed_topics(machine)
        if subscribed is None:
            raise GroupNotEmpty("what the group's members read is not known")
        return subscribed

    def in_memory(self, group_id: str) -> GroupMachine | None:
        """The group if it is in memory."""
        group = self._loaded.get(group_id)
        return None if group is None else group.machine

    def states(self) -> Iterator[tuple[str, int]]:
        """How many groups in memory are in which state."""
        states = Counter(group.machine.state.value for group in self._loaded.values())
        names = dict.fromkeys(state.value for state in (*GroupState, *ConsumerGroupState))
        yield from ((name, states[name]) for name in names if name != GroupState.DEAD.value)

    def member_count(self) -> int:
        """How many members all groups have together."""
        return sum(len(group.machine.roster) for group in self._loaded.values())

    async def list_stored(self) -> Sequence[str]:
        """The ids of all groups with a record or committed offsets, also of other brokers."""
        return sorted(await stored_groups(self._metadata))

    async def list(self) -> Sequence[Listed]:
        """Every group that has members, has had some, or has committed offsets."""
        listed = {
            group_id: summary
            for group_id, summary in (await stored_groups(self._metadata)).items()
            if self._cluster.may_coordinate(group_id)
        }
        for group_id, group in self._loaded.items():
            machine = group.machine
            if group_id in listed or not machine.is_idle:
                listed[group_id] = Listed(
                    group_id, machine.protocol_type, machine.state.value, machine.group_type
                )
        return [listed[group_id] for group_id in sorted(listed)]

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, and its committed offsets."""
        if await self.describe(group_id) is None:
            raise GroupNotFound(f"there is no group {group_id!r}")
        await self._discard(group_id, self._remove)

    async def discard_bare(self, group_id: str) -> None:
        """Delete a group that has neither members nor offsets, if it still has none."""
        try:
            await self._discard(group_id, self._remove_bare)
        except GroupNotEmpty:
            pass

    async def _discard(
        self, group_id: str, remove: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        group = await self._get(group_id)
        self._handle(group, Tick())  # members whose session is over do not count
        outcome = await self.ask(group_id, Delete(call=self.new_call()))
        if isinstance(outcome, Rejected):
            raise outcome.problem
        try:
            async with group.saving:
                group.unsaved = None
                await remove(group_id)
        finally:
            self._drop(group_id)

    async def _remove(self, group_id: str) -> None:
        """Remove everything about a group, the claim last."""
        guard = await self.claims.claim(group_id)
        try:
            while rows := await self._metadata.find(keys.group(group_id), limit=MAX_OPERATIONS):
                doomed = [Remove(row.key) for row in rows if len(rows) == 1 or row.key != guard.key]
                await self._metadata.commit(doomed, [guard])
        except MetadataConflict:
            raise self.claims.lost(group_id, guard) from None

    async def _remove_bare(self, group_id: str) -> None:
        """Remove claim and record. A commit that comes meanwhile is refused, or it stays."""
        guard = await self.claims.claim(group_id)
        heads = {guard.key, keys.group_metadata(group_id)}
        rows = await self._metadata.find(keys.group(group_id), limit=len(heads) + 1)
        if heads.issuperset(row.key for row in rows):
            try:
                await self._metadata.commit([Remove(key) for key in heads], [guard])
            except MetadataConflict:
                raise self.claims.lost(group_id, guard) from None


def _resolve(reply: Reply) -> None:
    """Complete the future of a call that waits."""
    call = reply.call
    assert isinstance(call, asyncio.Future)
    if not call.done():  # the caller may have been cancelled
        call.set_result(reply.outcome)
