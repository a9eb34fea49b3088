"""What a broker knows of the fleet, and what follows from it for logs and groups.

Here: registrations, the controller and the members as this broker has last heard of them. The
members are one key with a rising generation; who owns a log follows from it by arithmetic. A log
that this broker gained may be opened only when the generation is *settled*: every other broker has
let go of what it lost by it, or is gone. What this broker had and keeps it never stops serving.
Next door: what a broker does about all this (machine.py), who writes the members (controller.py),
the arithmetic (placement.py). Never here: clocks, stores, tasks.

Nothing here makes writing safe; the log protocol and the claims of groups do. It makes brokers
agree, and keeps high watermarks from going back when a log changes hands.
"""

from collections.abc import Iterable
from typing import Final

from kafscale.engine.cluster.placement import Placement
from kafscale.metadata.keys import BrokerRow, ControllerRow, MemberList

# A broker that vanished is remembered for so long. Clients wait up to 60 s for its answers.
VANISHED_S: Final = 90.0


class FleetState:
    """The fleet as one broker knows it."""

    def __init__(self, broker_id: int, incarnation: int) -> None:
        self.broker_id = broker_id
        self.incarnation = incarnation
        self.is_leaving = False
        self.is_settled = False  # whether everything this broker owns may be opened
        self.brokers: dict[int, BrokerRow] = {}
        self.registered_s = 0.0  # when this broker's session began
        self._last_rows: dict[int, BrokerRow] = {}  # of members, also of those that are away
        self._vanished: dict[int, tuple[float, BrokerRow]] = {}  # with the time they went
        self.controller: ControllerRow | None = None
        self.placement = Placement(MemberList(generation=0))
        self.learned_s = 0.0  # when this broker heard of the newest generation
        # The generations since the last settled one, that one first; None: none was ever settled.
        self._since: list[Placement] | None = None

    # -- news --------------------------------------------------------------------------------

    def note_brokers(self, brokers: dict[int, BrokerRow], now_s: float) -> None:
        """Go by these registrations."""
        self._vanished |= {
            who: (now_s, row)
            for who, row in self.brokers.items()
            if who not in brokers and not row.leaving
        }
        self._vanished = {
            who: (since_s, row)
            for who, (since_s, row) in self._vanished.items()
            if who not in brokers and now_s < since_s + VANISHED_S
        }
        self.brokers = brokers
        self._last_rows = {
            row.broker_id: row
            for row in (*self._last_rows.values(), *brokers.values())
            if row.broker_id in brokers or self.placement.names(row.broker_id)
        }

    def take_generation(self, members: MemberList, now_s: float) -> bool:
        """Go by these members if they are newer than the known ones; says whether they are."""
        before, newest = self.placement, Placement(members)
        if newest.generation <= before.generation:
            return False
        self.placement = newest
        self.learned_s = now_s
        self.is_settled = False
        if self._since is not None and newest.previous == before.generation:
            self._since.append(newest)
        else:
            # A broker of the missed generation may have owned what seems to be ours still.
            self._since = None
        return True

    def settle(self) -> None:
        """Every other broker has let go of what this one owns by the newest generation."""
        self._since = [self.placement]
        self.is_settled = True

    def lose(self) -> None:
        """Own nothing until the next generation that has this broker in it is settled."""
        self._since = None
        self.is_settled = False

    # -- questions ---------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Of the newest members."""
        return self.placement.generation

    @property
    def is_member(self) -> bool:
        """Whether this incarnation of the broker is among the newest members."""
        return self.placement.has(self.broker_id, self.incarnation)

    @property
    def as_controller(self) -> ControllerRow:
        """The controller's key as this broker would write it."""
        return ControllerRow(broker_id=self.broker_id, incarnation=self.incarnation)

    @property
    def has_heirs(self) -> bool:
        """Whether another broker is there that stays."""
        others = (row for who, row in self.brokers.items() if who != self.broker_id)
        return any(not row.leaving for row in others)

    def row_of(self, broker_id: int) -> BrokerRow | None:
        """How a broker is reached that is registered, or a member.

        A member that is away is named as before: who leads a log follows from the members alone.
        Brokers that hear of a lost registration at different times would contradict each other
        under one leader epoch otherwise, and clients would believe both.
        """
        row = self.brokers.get(broker_id)
        if row is None and self.placement.names(broker_id):
            row = self._last_rows.get(broker_id)
        return row

    def reachable(self) -> list[int]:
        """The brokers that `row_of` knows."""
        return sorted(who for who in self._last_rows if self.row_of(who) is not None)

    def list_vanished(self, now_s: float) -> list[BrokerRow]:
        """Brokers that went lately without leaving, and that are no members any more."""
        return [
            row
            for who, (since_s, row) in sorted(self._vanished.items())
            if now_s < since_s + VANISHED_S and self.row_of(who) is None
        ]

    def may_open(self, folder: str) -> bool:
        """Whether a log is this broker's and no other broker can have it open any more."""
        if self._since is None or not self.is_member:
            return False
        return all(placement.owner(folder) == self.broker_id for placement in self._since)

    def may_coordinate(self, group_id: str) -> bool:
        """The same for a group."""
        if self._since is None or not self.is_member:
            return False
        return all(placement.coordinator(group_id) == self.broker_id for placement in self._since)


def is_gone(holder: ControllerRow, brokers: Iterable[BrokerRow]) -> bool:
    """Whether a controller's registration is gone, or taken over by its successor.

    So a broker that was restarted need not wait for the lease of its own predecessor.
    """
    return not any(
        (row.broker_id, row.incarnation) == (holder.broker_id, holder.incarnation)
        for row in brokers
    )


def behind(rows: Iterable[BrokerRow], generation: int) -> tuple[int, ...]:
    """The brokers that have not let go yet of what they lost by this generation.

    The asking broker counts, too: what it lost and gets back may still be flushed by its old log.
    """
    return tuple(row.broker_id for row in rows if row.generation < generation)
