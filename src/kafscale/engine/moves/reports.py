"""How far the logs of topics that move are: reports in the metadata store.

Here: one key per topic and log. A report that is lost is made again, so it can be removed at any
time. It counts for the move that it names and for no other.
Next door: what is done by them (moves.py), what they say (metadata/keys.py).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from kafscale.engine.topics.topic import Topic
from kafscale.metadata import keys
from kafscale.metadata.keys import MoveReport
from kafscale.metadata.store import Compare, MetadataStore, Put, Remove, pages
from kafscale.model.errors import MetadataConflict
from kafscale.model.topics import Move

Reports = Mapping[str, MoveReport]  # by folder


class MoveReports:
    """All reports of all moves."""

    def __init__(self, metadata: MetadataStore) -> None:
        """Keep them there."""
        self._metadata = metadata
        self._waiting: dict[str, Put] = {}
        self._writing = asyncio.Lock()

    async def find(self, topic: Topic, move: Move) -> dict[str, MoveReport]:
        """What is reported of one move."""
        prefix = keys.moves(topic.name)
        found = {}
        for entry in await self._metadata.find(prefix):
            report = keys.decode(MoveReport, entry.value)
            if report.move_id == move.move_id:
                found[keys.text_of(entry.key.removeprefix(prefix))] = report
        return found

    async def put(self, topic: Topic, folder: str, report: MoveReport) -> None:
        """Tell everybody. What many say at once is one commit.

        Where that fails only one of them is told; the others find out, as after a crash, that
        they have not been heard.
        """
        key = keys.move_report(topic.name, folder)
        self._waiting[key] = Put(key, keys.encode(report))
        async with self._writing:
            while key in self._waiting:
                waiting = list(self._waiting.values())
                rows = waiting[next(pages(waiting))]
                for row in rows:
                    del self._waiting[row.key]
                await self._metadata.commit(rows)

    async def remove(self, topic: Topic, folders: Iterable[str]) -> None:
        """Nobody needs them any more."""
        rows = [Remove(keys.move_report(topic.name, folder)) for folder in folders]
        for some in pages(rows):
            await self._metadata.commit(rows[some])

    async def remove_old(self, is_on: Callable[[str, str], bool]) -> int:
        """Clear away what nobody will ask for: reports of moves, by topic and id, that are over.

        Topics are deleted on the way, moves called off, and some who report do so late.
        """
        count = 0
        for entry in await self._metadata.find(keys.MOVES):
            name = keys.text_of(entry.key.removeprefix(keys.MOVES).partition("/")[0])
            if is_on(name, keys.decode(MoveReport, entry.value).move_id):
                continue
            try:
                await self._metadata.commit(
                    [Remove(entry.key)], [Compare(entry.key, entry.version)]
                )
                count += 1
            except MetadataConflict:
                continue  # a later report stands there now
        return count
