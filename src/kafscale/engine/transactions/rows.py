"""Transactional ids in the metadata store: reading them, and writing by comparison (rule T1).

Here: keys and values. A transaction's row is the only thing that decides. Every write compares
its version, so that none is made by an outdated judgement.
Next door: which rows follow from which (kafscale/transactions/machine.py), who asks
(coordinator.py, endings.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafscale.metadata import keys
from kafscale.metadata.keys import PendingOffsets, PlacesRow, ProducerRow
from kafscale.metadata.store import Compare, Entry, MetadataStore, Put, Remove, pages
from kafscale.model.clock import Dice
from kafscale.transactions.rows import SessionsRow, Transaction

_AT_ONCE: Final = 120  # writes of a commit, with room for the row itself
_PAGE: Final = 500


class RegisteredPartition(NamedTuple):
    """A partition. The name is for tools and for looking the topic up."""

    topic_id: str
    name: str
    partition: int


class LogSession(NamedTuple):
    """One opening of a log: what it holds in memory is lost with it."""

    folder: str
    token: str


class StoredTransaction(NamedTuple):
    """A transactional id as the store had it at one moment."""

    transactional_id: str
    row: Transaction | None
    version: int  # of the row; 0: there is none
    places: frozenset[RegisteredPartition]
    marked: frozenset[RegisteredPartition]  # of those
    others: tuple[str, ...]  # keys beside the row
    sessions: frozenset[LogSession] = frozenset()  # that hold its records in memory
    kept: frozenset[LogSession] = frozenset()  # those that have written them

    @property
    def guard(self) -> Compare:
        """What every write compares."""
        return Compare(keys.transaction_row(self.transactional_id), self.version)


class TransactionRows:
    """Reads and writes transactional ids."""

    def __init__(self, metadata: MetadataStore, dice: Dice) -> None:
        self._metadata = metadata
        self._dice = dice

    async def load(self, transactional_id: str) -> StoredTransaction:
        """Read an id with its places."""
        entries = await self._metadata.find(keys.transaction(transactional_id))
        return _parse(transactional_id, entries)

    async def row(self, transactional_id: str) -> Transaction | None:
        """Read the row of an id alone."""
        entry = await self._metadata.get(keys.transaction_row(transactional_id))
        return None if entry is None else keys.decode(Transaction, entry.value)

    async def write(
        self,
        stored: StoredTransaction,
        row: Transaction,
        places: Iterable[RegisteredPartition] = (),
        more: Sequence[Put | Remove] = (),
        guards: Sequence[Compare] = (),
        sessions: Iterable[LogSession] = (),
    ) -> None:
        """Write the next row, and places that are registered with it. Raises MetadataConflict.

        A row that has not changed is not written again: other brokers register beside this one.
        """
        transactional_id = stored.transactional_id
        writes: list[Put | Remove] = [*more, *self._places(transactional_id, row, places)]
        if sessions:
            writes.append(self._sessions(transactional_id, row, sessions))
        if row is not stored.row:
            key = keys.transaction_row(transactional_id)
            known = stored.row and (stored.row.producer_id, stored.row.epoch)
            is_fence = known != (row.producer_id, row.epoch)
            writes.append(Put(key, keys.encode(row), synced=is_fence))
            if stored.row is None or row.producer_id != stored.row.producer_id:
                writes.append(self._producer(transactional_id, row.producer_id))
        if writes:
            await self._metadata.commit(writes, [stored.guard, *guards])

    def _places(
        self, transactional_id: str, row: Transaction, places: Iterable[RegisteredPartition]
    ) -> Iterator[Put]:
        value = _places_row(places, row.turn)
        if value.topics:
            key = keys.transaction_places(transactional_id, self._dice.token(8).hex())
            yield Put(key, keys.encode(value))

    def _sessions(
        self,
        transactional_id: str,
        row: Transaction,
        sessions: Iterable[LogSession],
        *,
        are_kept: bool = False,
    ) -> Put:
        named = [(session.folder, session.token) for session in sorted(sessions)]
        value = SessionsRow(sessions=named, turn=row.turn)
        token = self._dice.token(8).hex()
        key = keys.transaction_sessions(transactional_id, token, are_kept=are_kept)
        return Put(key, keys.encode(value))

    @staticmethod
    def _producer(transactional_id: str, producer_id: int) -> Put:
        row = ProducerRow(transactional_id=transactional_id)
        return Put(keys.producer(producer_id), keys.encode(row))

    async def decide(self, stored: StoredTransaction, row: Transaction) -> int:
        """Write a decision (rule T4: it is synced), and let all brokers hear of it."""
        writes = [
            Put(keys.transaction_row(stored.transactional_id), keys.encode(row), synced=True),
            Put(keys.ending(stored.transactional_id), b"%d" % row.turn),
        ]
        return await self._metadata.commit(writes, [stored.guard])

    async def report_marked(
        self, stored: StoredTransaction, marked: Iterable[RegisteredPartition]
    ) -> None:
        """Say which places have their marker."""
        assert stored.row is not None
        key = keys.transaction_marked(stored.transactional_id, self._dice.token(8).hex())
        value = _places_row(marked, stored.row.turn)
        await self._metadata.commit([Put(key, keys.encode(value))], [stored.guard])

    async def report_kept(self, stored: StoredTransaction, sessions: Iterable[LogSession]) -> None:
        """Say which sessions have written all that they held of a transaction (rule B6)."""
        assert stored.row is not None
        put = self._sessions(stored.transactional_id, stored.row, sessions, are_kept=True)
        await self._metadata.commit([put], [stored.guard])

    async def finish(
        self, stored: StoredTransaction, row: Transaction, more: Sequence[Put | Remove]
    ) -> None:
        """Write that a transaction is done, after all that belongs to its end.

        What does not fit into one commit goes before: the row has not changed until the last one.
        """
        before = [*more, *(Remove(key) for key in stored.others)]
        last: list[Put | Remove] = [
            Put(keys.transaction_row(stored.transactional_id), keys.encode(row)),
            Remove(keys.ending(stored.transactional_id)),
        ]
        if stored.row is not None and row.producer_id != stored.row.producer_id:
            last.append(self._producer(stored.transactional_id, row.producer_id))
        slices = list(pages(before, _AT_ONCE))
        for part in slices[:-1]:
            await self._metadata.commit(before[part], [stored.guard])
        rest = before[slices[-1]] if slices else []
        await self._metadata.commit([*rest, *last], [stored.guard])

    async def remove(self, stored: StoredTransaction) -> None:
        """Remove an id that has expired."""
        assert stored.row is not None
        writes = [
            Remove(keys.transaction_row(stored.transactional_id)),
            Remove(keys.producer(stored.row.producer_id)),
        ]
        await self._metadata.commit(writes, [stored.guard])

    async def producer(self, producer_id: int) -> ProducerRow:
        """The transactional id that a producer has, or what a recovery says of it."""
        entry = await self._metadata.get(keys.producer(producer_id))
        return ProducerRow() if entry is None else keys.decode(ProducerRow, entry.value)

    async def is_deleted(self, place: RegisteredPartition) -> bool:
        """Whether the topic of a place is not there any more, whatever this broker has heard."""
        entry = await self._metadata.get(keys.topic_config(place.name))
        return entry is None or keys.decode(keys.TopicRow, entry.value).topic_id != place.topic_id

    async def pending_of(self, group_id: str) -> list[tuple[str, PendingOffsets, Entry]]:
        """By transactional id: the offsets that may be committed for a group."""
        prefix = keys.pending_offsets(group_id)
        return [
            (
                keys.text_of(entry.key.removeprefix(prefix)),
                keys.decode(PendingOffsets, entry.value),
                entry,
            )
            for entry in await self._metadata.find(prefix)
        ]

    async def pending(self, group_id: str, transactional_id: str) -> PendingOffsets | None:
        """What a transaction commits for a group."""
        entry = await self._metadata.get(keys.pending_offsets(group_id, transactional_id))
        return None if entry is None else keys.decode(PendingOffsets, entry.value)

    async def page(self, after: str) -> list[Entry]:
        """Some keys of transactional ids, in order."""
        return await self._metadata.find(keys.TRANSACTIONS, after=after, limit=_PAGE)


def _parse(transactional_id: str, entries: Sequence[Entry]) -> StoredTransaction:
    row: Transaction | None = None
    version = 0
    found: dict[str, list[PlacesRow]] = {"places": [], "marked": []}
    held: dict[str, list[SessionsRow]] = {"sessions": [], "kept": []}
    others = []
    prefix = keys.transaction(transactional_id)
    for entry in entries:
        kind, _, _ = entry.key.removeprefix(prefix).partition("/")
        if kind == "row":
            row, version = keys.decode(Transaction, entry.value), entry.version
            continue
        others.append(entry.key)
        if kind in found:
            found[kind].append(keys.decode(PlacesRow, entry.value))
        elif kind in held:
            held[kind].append(keys.decode(SessionsRow, entry.value))
    turn = -1 if row is None else row.turn
    places, marked = (
        frozenset(
            RegisteredPartition(topic_id, name, partition)
            for some in rows
            if some.turn == turn
            for topic_id, name, partitions in some.topics
            for partition in partitions
        )
        for rows in found.values()
    )
    sessions, kept = (
        frozenset(LogSession(*one) for some in rows if some.turn == turn for one in some.sessions)
        for rows in held.values()
    )
    return StoredTransaction(
        transactional_id, row, version, places, marked, tuple(others), sessions, kept
    )


def _places_row(places: Iterable[RegisteredPartition], turn: int) -> PlacesRow:
    topics: dict[tuple[str, str], list[int]] = {}
    for place in sorted(set(places)):
        topics.setdefault((place.topic_id, place.name), []).append(place.partition)
    return PlacesRow(
        topics=[(topic_id, name, numbers) for (topic_id, name), numbers in topics.items()],
        turn=turn,
    )
