"""Reports in the metadata store: how far the logs of topics that move are.

Here: one key per topic and log. A broker writes a lost report again, so reports can be removed at
any time. A report counts only for the move that it names.
Next door: who writes and reads them (moves.py, steps.py), their JSON (metadata/keys.py).
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
        self._metadata = metadata
        self._waiting: dict[str, Put] = {}
        self._writing = asyncio.Lock()

    async def find(self, topic: Topic, move: Move) -> dict[str, MoveReport]:
        """The reports of one move, by folder."""
        prefix = keys.moves(topic.name)
        reports = {}
        for entry in await self._metadata.find(prefix):
            report = keys.decode(MoveReport, entry.value)
            if report.move_id == move.move_id:
                reports[keys.text_of(entry.key.removeprefix(prefix))] = report
        return reports

    async def put(self, topic: Topic, folder: str, report: MoveReport) -> None:
        """Write a report. Reports that wait at the same time are one commit.

        If the commit fails, only one of the callers gets the error. The others find at their next
        step, as after a crash, that their report is missing, and write it again.
        """
        key = keys.move_report(topic.name, folder)
        self._waiting[key] = Put(key, keys.encode(report))
        async with self._writing:
            while key in self._waiting:
                waiting = list(self._waiting.values())
                puts = waiting[next(pages(waiting))]
                for put in puts:
                    del self._waiting[put.key]
                await self._metadata.commit(puts)

    async def remove(self, topic: Topic, folders: Iterable[str]) -> None:
        """Remove the reports of a move that is over."""
        removes = [Remove(keys.move_report(topic.name, folder)) for folder in folders]
        for page in pages(removes):
            await self._metadata.commit(removes[page])

    async def remove_old(self, is_on: Callable[[str, str], bool]) -> int:
        """Remove the reports of all moves that are over; gives how many.

        They are left by topics that were deleted during a move, by moves that were replaced, and by
        brokers that reported late. `is_on` tells by topic and move id whether a move goes on.
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
                continue  # a later report has replaced it
        return count
