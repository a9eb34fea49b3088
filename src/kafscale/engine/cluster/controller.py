"""The controller: one broker at a time that writes the member list.

Here: the election, and a new generation of members whenever registrations say so, as decisions
without a store: facts come in, one effect goes out. Members are written only together with a
comparison of the controller's key, so that the store stops a controller that does not know yet
that it was deposed. Generations are numbers of the same rising mark as incarnations and the epochs
of single brokers: leader epochs never go back.
Some changes are gathered for a while, so that leaders do not change and change back: clients lose
a partition whose leader does that quickly (decision 45).
Next door: the machine that asks (machine.py), what members mean (placement.py).
"""

import math
from collections.abc import Iterable
from enum import Enum
from typing import Final

from kafscale.engine.cluster.events import ClaimController, FleetRead, ReadFleet, WriteMembers
from kafscale.engine.cluster.fleet_state import FleetState, is_gone
from kafscale.metadata.keys import MemberList, MemberRow

PAUSE_S: Final = 0.1  # before a controller tries again


class Stage(Enum):
    """What a candidate waits for."""

    IDLE = "idle"
    READING = "reading"
    CLAIMING = "claiming"
    WRITING = "writing"


class Controller:
    """A candidate, and the controller whenever there is no other."""

    def __init__(self, state: FleetState, *, gather_s: float) -> None:
        """Gather brokers that join, or that may be about to return, for `gather_s`."""
        self._state = state
        self._gather_s = gather_s
        self.restart()

    def restart(self) -> None:
        """Begin again, in a new session: no answer to what was asked before will come."""
        self.stage = Stage.IDLE
        self._is_due = True  # something has happened since the last look
        self._not_before_s = -math.inf
        self._gathered_s = math.inf  # when what is gathered is written
        self._joining: dict[int, float] = {}  # since when brokers wait to become members

    def note_news(self) -> None:
        """Decide again: registrations, the controller or the members have changed."""
        self._is_due = True

    def wake_s(self) -> float:
        """When `next_effect` has something to do by itself."""
        if self.stage is not Stage.IDLE:
            return math.inf
        return self._not_before_s if self._is_due else self._gathered_s

    def next_effect(self, now_s: float) -> ReadFleet | None:
        """Read the fleet if something has happened and the controller may be this broker's job."""
        if now_s < self.wake_s():
            return None
        self._is_due, self._gathered_s = False, math.inf
        holder, state = self._state.controller, self._state
        if holder not in (None, state.as_controller) and not is_gone(
            holder, state.brokers.values()
        ):
            return None
        self.stage = Stage.READING
        return ReadFleet()

    def decide(self, facts: FleetRead, now_s: float) -> ClaimController | WriteMembers | None:
        """Become the controller if there is none; as the controller, write what has changed."""
        state = self._state
        if facts.controller == state.as_controller:
            effect: ClaimController | WriteMembers | None = self._new_members(facts, now_s)
        elif facts.controller is not None and not is_gone(facts.controller, facts.brokers):
            effect = None
        elif state.is_leaving and state.has_heirs:
            effect = None  # a broker that leaves does not begin what it cannot go on with
        else:
            effect = ClaimController(state.as_controller, facts.controller_version)
        if isinstance(effect, ClaimController):
            self.stage = Stage.CLAIMING
        else:
            self.stage = Stage.WRITING if effect else Stage.IDLE
        return effect

    def _new_members(self, facts: FleetRead, now_s: float) -> WriteMembers | None:
        """Make those brokers members that are registered and stay."""
        staying = sorted(
            MemberRow(row.broker_id, row.incarnation) for row in facts.brokers if not row.leaving
        )
        current = facts.members
        newcomers = {row.broker_id for row in staying} - _ids(current.brokers)
        self._joining = {who: self._joining.get(who, now_s) for who in newcomers}
        known = min((row.transaction_version for row in facts.brokers), default=0)
        version = max(known, current.transaction_version)
        is_same = tuple(staying) == current.brokers and version == current.transaction_version
        if not staying or is_same:
            return None
        gathered_s = self._gathered_at_s(facts, staying)
        if now_s < gathered_s:
            self._gathered_s = gathered_s
            return None
        # Brokers may remember more than a metadata store that was restored.
        generation = max(facts.next_epoch, current.generation + 1, self._state.generation + 1)
        return WriteMembers(
            MemberList(
                generation=generation,
                previous=current.generation,
                brokers=tuple(staying),
                transaction_version=version,
            ),
            facts.controller_version,
            facts.members_version,
            facts.epochs_version,
        )

    def _gathered_at_s(self, facts: FleetRead, staying: list[MemberRow]) -> float:
        """From when on these members are written, if nothing else happens."""
        current = facts.members.brokers
        if _ids(current) - {row.broker_id for row in facts.brokers}:
            # A member has died: its logs have no leader. But when this broker has only just come
            # itself, the others may be about to come back, too, and then nothing has to move.
            return self._state.registered_s + self._gather_s
        if not current or set(current) - set(staying):
            return -math.inf  # what leaves must be taken over, what came back waits for its logs
        # Brokers that join can wait: others serve what will be theirs.
        return min(self._joining.values(), default=-math.inf) + self._gather_s

    def claimed(self) -> ReadFleet:
        """This broker is the controller now: see what is to be written."""
        self.stage = Stage.READING
        return ReadFleet()

    def written(self) -> None:
        """The member list is in the store."""
        self.stage = Stage.IDLE

    def try_again(self, now_s: float) -> None:
        """Another broker was faster, or the store is away: decide again, a little later."""
        self.stage = Stage.IDLE
        self._is_due = True
        self._not_before_s = now_s + PAUSE_S


def _ids(brokers: Iterable[MemberRow]) -> set[int]:
    return {row.broker_id for row in brokers}
