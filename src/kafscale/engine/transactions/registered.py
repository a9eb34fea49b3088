"""What this broker has read of registrations, so that a large transaction is not read again.

Here: a memory of places and sessions of ongoing transactions. It never answers alone: the caller
reads the row, and what was registered in the same turn of the same producer still is, because
registrations go only when the transaction is done (rule T6).
Next door: the row and the store (rows.py), who asks (coordinator.py).
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from kafscale.engine.transactions.rows import LogSession, RegisteredPartition
from kafscale.transactions.rows import Transaction, TransactionState

_MOST_IDS: Final = 500


class KnownTurn(NamedTuple):
    """What was registered with one transaction when it was last read."""

    producer_id: int
    turn: int
    places: frozenset[RegisteredPartition]
    sessions: frozenset[LogSession]

    def is_about(self, row: Transaction) -> bool:
        """Whether the row still has this transaction ongoing."""
        is_ongoing = row.state is TransactionState.ONGOING
        return is_ongoing and (row.producer_id, row.turn) == (self.producer_id, self.turn)


class Registered:
    """Registrations by transactional id; those that were read longest ago are forgotten."""

    def __init__(self) -> None:
        self._known: dict[str, KnownTurn] = {}

    def learn(
        self,
        transactional_id: str,
        row: Transaction,
        places: frozenset[RegisteredPartition],
        sessions: frozenset[LogSession],
    ) -> None:
        """Remember what the store had, or was given, under an ongoing row."""
        self._known.pop(transactional_id, None)
        if row.state is not TransactionState.ONGOING:
            return
        if len(self._known) >= _MOST_IDS:
            del self._known[next(iter(self._known))]
        self._known[transactional_id] = KnownTurn(row.producer_id, row.turn, places, sessions)

    def forget(self, transactional_id: str) -> None:
        """Its transaction is decided."""
        self._known.pop(transactional_id, None)

    def covering(
        self,
        transactional_id: str,
        places: Collection[RegisteredPartition],
        sessions: Collection[LogSession],
    ) -> KnownTurn | None:
        """The transaction that had all of this: then it is enough to read the row."""
        known = self._known.get(transactional_id)
        if known is None or not known.places.issuperset(places):
            return None
        return known if known.sessions.issuperset(sessions) else None
