"""Consumer groups as they live in a broker: one machine per group, timers, waiting calls.

Here: the shell around the state machine. A group is read from the metadata store when it is first
asked for, and written when a rebalance is complete, before those who were assigned something hear
of it: a broker that was restarted goes on with the same generation. Heartbeats are never written.
Every write compares the broker's claim to the group; a group that was lost is forgotten at once.
Next door: the rules (groups/machine.py), the JSON (group_records.py), claims (claims.py), offsets
(offsets.py), when groups are forgotten (expiry.py).
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator import records
from kafscale.engine.coordinator.claims import Claims
from kafscale.engine.coordinator.listing import Listed, stored_groups
from kafscale.engine.coordinator.loaded_group import Held, give
from kafscale.engine.coordinator.offsets import check_group_id
from kafscale.groups.events import (
    Delete,
    Event,
    GroupOutcome,
    Join,
    Persist,
    Rejected,
    Sync,
    Tick,
    WakeAt,
)
from kafscale.groups.machine import Group
from kafscale.groups.states import GroupRules, GroupState
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
_SHORTEST_NAP_S: Final = 0.01
_LONGEST_PREFIX: Final = 255  # of a member id: what clients call themselves can be very long


class Groups:
    """All groups this broker coordinates."""

    def __init__(
        self,
        metadata: MetadataStore,
        claims: Claims,
        rules: GroupRules,
        clock: Clock,
        dice: Dice,
        tasks: Tasks,
        fleet: Membership,
    ) -> None:
        """Know none yet: each is read when it is first asked for, if it is ours."""
        self._metadata = metadata
        self._fleet = fleet
        self._claims = claims
        claims.on_lost, claims.may_take = self._lose, fleet.may_coordinate
        self.on_rebalanced: Callable[[], None] = lambda: None
        self._rules = rules
        self._clock = clock
        self._dice = dice
        self._tasks = tasks
        self._held: dict[str, Held] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._lost: set[str] = set()  # to another broker, and not read again since

    async def aclose(self) -> None:
        """Stop the timers and write what is not written yet."""
        for held in list(self._held.values()):
            held.stop_timer()
            await self._save_or_warn(held)

    # -- asking ------------------------------------------------------------------------------

    def is_loaded(self, group_id: str) -> bool:
        """Whether `ask` can be answered without the store."""
        return group_id in self._held

    async def load(self, group_id: str) -> None:
        """Read a group, once for all who want it; one that was never saved begins empty."""
        check_group_id(group_id)
        await self._fleet.require_group(group_id)
        if group_id in self._held:
            return
        task = self._loading.get(group_id)
        if task is None:
            task = self._tasks.spawn(self._load(group_id), f"group {group_id}", awaited=True)
            self._loading[group_id] = task
            task.add_done_callback(lambda _: self._loading.pop(group_id, None))
        await asyncio.shield(task)

    async def _get(self, group_id: str) -> Held:
        while (held := self._held.get(group_id)) is None:
            await self.load(group_id)
        return held

    async def _load(self, group_id: str) -> None:
        entry = await self._claims.look(group_id)
        machine = Group(self._rules)
        if entry is not None:
            try:
                saved = records.read(keys.decode_group(entry.value))
                machine = Group.restored(self._rules, saved, self._clock.elapsed_s())
            except CorruptObject as problem:
                # Its members are told that they are none and join again; offsets are elsewhere.
                logger.error("group_unreadable", group=group_id, error=str(problem))
        if not self._fleet.may_coordinate(group_id):
            self._claims.forget(group_id)
            raise NotTheCoordinator(f"group {group_id!r} has become another broker's")
        self._forget_idle()
        self._lost.discard(group_id)
        held = self._held[group_id] = Held(group_id, machine)
        self._wake_at(held, machine.next_wake_s())

    def _forget_idle(self) -> None:
        """Make room: what is empty and saved can be read again."""
        if len(self._held) < _MOST_IDLE:
            return
        self._lost.clear()
        idle = [
            group_id
            for group_id, held in self._held.items()
            if held.machine.is_idle and held.unsaved is None and not held.saving.locked()
        ]
        for group_id in idle[: _MOST_IDLE // 2]:
            self._drop(group_id)

    def _drop(self, group_id: str) -> None:
        """Keep nothing of a group in memory: it is read again when it is next asked for."""
        held = self._held.pop(group_id, None)
        self._claims.forget(group_id)
        if held is not None:
            held.stop_timer()

    def _lose(self, group_id: str) -> None:
        """Another broker has the group: those who wait here must ask that one."""
        held = self._held.get(group_id)
        if held is None:
            return
        held.is_lost = True
        self._lost.add(group_id)
        self._drop(group_id)
        held.turn_away()

    def release(self) -> Coroutine[None, None, None]:
        """Stop coordinating what is no longer ours, now; what is given back saves it."""
        lost = [held for name, held in self._held.items() if not self._fleet.may_coordinate(name)]
        for held in lost:
            held.stop_timer()
            held.turn_away()
        return self._save_and_lose(lost)

    async def _save_and_lose(self, lost: Sequence[Held]) -> None:
        for held in lost:
            await self._save_or_warn(held)
            if self._held.get(held.group_id) is held:
                self._lose(held.group_id)

    def drop(self) -> None:
        """Forget every group at once: nothing may be promised any more."""
        for group_id in list(self._held):
            self._lose(group_id)

    def fresh_member_id(self, prefix: str) -> str:
        """An id nobody has had."""
        token = self._dice.token(16).hex()
        parts = (token[:8], token[8:12], token[12:16], token[16:20], token[20:])
        return "-".join((prefix[:_LONGEST_PREFIX], *parts))

    def ask(self, group_id: str, event: Event) -> "asyncio.Future[GroupOutcome]":
        """Let an event happen now; its `call` is the future that is given back.

        The group must be loaded: requests of a connection count in their order, so nothing may
        be waited for in between.
        """
        check_group_id(group_id)
        held = self._held.get(group_id)
        if not self._fleet.may_coordinate(group_id) or (held is None and group_id in self._lost):
            raise NotTheCoordinator(f"group {group_id!r} is another broker's")
        if held is None:
            raise MetadataUnavailable(f"group {group_id!r} could not be read")
        call = getattr(event, "call", None)
        assert isinstance(call, asyncio.Future)
        self._handle(held, event)
        return call

    def new_call(self) -> "asyncio.Future[GroupOutcome]":
        """What an event names as its call."""
        return asyncio.get_running_loop().create_future()

    async def settled(
        self, group_id: str, waiting: "asyncio.Future[GroupOutcome]", event: Join | Sync
    ) -> GroupOutcome:
        """Wait for the outcome, and until what it says is saved."""
        held = self._held.get(group_id)  # before the wait: the group may be lost meanwhile
        outcome = await waiting
        if held is not None and not isinstance(outcome, Rejected):
            try:
                await self._save(held)
            except KafscaleError as problem:
                return Rejected(problem, event.member_id)
        return outcome

    def _handle(self, held: Held, event: Event) -> None:
        generation = held.machine.generation
        for effect in held.machine.handle(event, self._clock.elapsed_s()):
            if isinstance(effect, Persist):
                held.unsaved = effect.snapshot
                held.changed_at = iso_time(self._clock.now_ms())
            elif isinstance(effect, WakeAt):
                self._wake_at(held, effect.at_s)
            else:
                give(effect)
        if held.machine.generation != generation:
            self._tell_of_rebalance(held)
        if held.unsaved is not None and not held.saving.locked():
            self._tasks.spawn(self._save_or_warn(held), f"saving group {held.group_id}")

    def _tell_of_rebalance(self, held: Held) -> None:
        machine = held.machine
        self.on_rebalanced()
        logger.info(
            "consumer_rebalance",
            group_id=held.group_id,
            generation=machine.generation,
            member_count=len(machine.roster),
        )

    # -- time --------------------------------------------------------------------------------

    def _wake_at(self, held: Held, at_s: float) -> None:
        """Have a timer that is early enough; one that is too early does no harm."""
        if at_s == math.inf or held.wakes_s <= at_s:
            return
        held.stop_timer()
        held.wakes_s = at_s
        delay_s = max(at_s - self._clock.elapsed_s(), _SHORTEST_NAP_S)
        held.timer = asyncio.get_running_loop().call_later(delay_s, self._wake, held)

    def _wake(self, held: Held) -> None:
        held.timer, held.wakes_s = None, math.inf
        self._handle(held, Tick())

    def tick(self) -> None:
        """Let every group see what time it is."""
        for held in list(self._held.values()):
            self._handle(held, Tick())

    # -- saving ------------------------------------------------------------------------------

    async def _save(self, held: Held) -> None:
        """Write the newest snapshot; many who ask at once cause one write."""
        async with held.saving:
            while (snapshot := held.unsaved) is not None:
                if held.is_lost:
                    raise NotTheCoordinator(f"group {held.group_id!r} is another broker's")
                guard = await self._claims.take(held.group_id)
                value = records.stored(held.group_id, snapshot, held.changed_at)
                try:
                    await self._metadata.commit(
                        [Put(keys.group_metadata(held.group_id), value)], [guard]
                    )
                except MetadataConflict:
                    raise self._claims.lost(held.group_id, guard) from None
                if held.unsaved is snapshot:
                    held.unsaved = None

    async def is_saved(self, group_id: str) -> bool:
        """Whether the store has a group as it is here; if not it is written now."""
        held = self._held.get(group_id)
        if held is None or (held.unsaved is None and not held.saving.locked()):
            return True
        await self._save(held)
        return False

    async def _save_or_warn(self, held: Held) -> None:
        try:
            await self._save(held)
        except KafscaleError as problem:
            # Tried again with the next thing that happens to the group.
            logger.warning("group_not_saved", group=held.group_id, error=str(problem))

    # -- looking and deleting ----------------------------------------------------------------

    async def describe(self, group_id: str) -> Group | None:
        """The group as it is now; None if there is none."""
        machine = (await self._get(group_id)).machine
        if machine.state is GroupState.DEAD:
            return None
        if machine.is_idle and not await self._is_known(group_id):
            return None
        return machine

    async def _is_known(self, group_id: str) -> bool:
        """Whether there is anything but a claim."""
        rows = await self._metadata.find(keys.group(group_id), limit=2)
        return any(row.key != keys.group_coordinator(group_id) for row in rows)

    def in_memory(self, group_id: str) -> Group | None:
        """The group if it is here."""
        held = self._held.get(group_id)
        return None if held is None else held.machine

    def census(self) -> Iterator[tuple[str, int]]:
        """How many groups in memory are in which state, and how many members they have."""
        states = Counter(held.machine.state for held in self._held.values())
        yield from (
            (state.value, states[state]) for state in GroupState if state is not GroupState.DEAD
        )

    def member_count(self) -> int:
        """How many members all groups have together."""
        return sum(len(held.machine.roster) for held in self._held.values())

    async def list(self) -> Sequence[Listed]:
        """Every group that has members, has had some, or has committed offsets."""
        found = {
            name: row
            for name, row in (await stored_groups(self._metadata)).items()
            if self._fleet.may_coordinate(name)
        }
        for group_id, held in self._held.items():
            machine = held.machine
            if group_id in found or not machine.is_idle:
                found[group_id] = Listed(group_id, machine.protocol_type, machine.state.value)
        return [found[group_id] for group_id in sorted(found)]

    async def delete(self, group_id: str) -> None:
        """Forget a group without members, and what it has committed."""
        if await self.describe(group_id) is None:
            raise GroupNotFound(f"there is no group {group_id!r}")
        await self._discard(group_id, self._remove)

    async def discard_bare(self, group_id: str) -> None:
        """Forget a group that has neither members nor offsets, if it still has none."""
        try:
            await self._discard(group_id, self._remove_bare)
        except GroupNotEmpty:
            pass

    async def _discard(
        self, group_id: str, remove: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        held = await self._get(group_id)
        self._handle(held, Tick())  # whose time is over counts no more, timer or not
        outcome = await self.ask(group_id, Delete(call=self.new_call()))
        if isinstance(outcome, Rejected):
            raise outcome.problem
        try:
            async with held.saving:
                held.unsaved = None
                await remove(group_id)
        finally:
            self._drop(group_id)

    async def _remove(self, group_id: str) -> None:
        """Remove everything about a group, the claim last."""
        guard = await self._claims.take(group_id)
        try:
            while rows := await self._metadata.find(keys.group(group_id), limit=MAX_OPERATIONS):
                doomed = [Remove(row.key) for row in rows if len(rows) == 1 or row.key != guard.key]
                await self._metadata.commit(doomed, [guard])
        except MetadataConflict:
            raise self._claims.lost(group_id, guard) from None

    async def _remove_bare(self, group_id: str) -> None:
        """Remove claim and record; a commit that comes meanwhile is refused or stays."""
        guard = await self._claims.take(group_id)
        heads = {guard.key, keys.group_metadata(group_id)}
        rows = await self._metadata.find(keys.group(group_id), limit=len(heads) + 1)
        if heads.issuperset(row.key for row in rows):
            try:
                await self._metadata.commit([Remove(key) for key in heads], [guard])
            except MetadataConflict:
                raise self._claims.lost(group_id, guard) from None
