"""Files that were written and never became part of a table: found and deleted.

Each round of an export leaves a note before its workers write, and the list of its files after
its commit. Files carry the round's name, so that later exports find what a round left behind: all
of it where the round died, and the files of tasks that Spark ran twice. A day later, by the store's
clock, they are deleted. No file of a running round is deleted: a round that takes more than half a
day commits nothing and begins again.
Next door: the rounds (jobs/export.py), the tables (table.py).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import ObjectExists
from kafscale.spark.lake.table import Table
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile
from kafscale.system import SystemDice

FOLDER: Final = "_kafscale_rounds"
STAGED: Final = "_staged/"  # where an upsert's rounds put what is only for their second half
GRACE_MS: Final = 24 * 3600 * 1000
_BEGUN: Final = ".begun"
_DONE: Final = ".done"


class Round:
    """One attempt to bring a table forward."""

    def __init__(self, table: Table, grace_ms: int = GRACE_MS) -> None:
        """Note that it has begun, before anything is written for it."""
        self._place = table.place
        self._grace_ms = grace_ms
        self.name = SystemDice().token(8).hex()
        self._began_ms = self._place.now_ms()
        self._place.put_new(f"{FOLDER}/{self.name}{_BEGUN}", b"")

    def check_in_time(self) -> None:
        """Right before a commit: raise LostRace where the files may be taken for leftovers."""
        if self._place.now_ms() - self._began_ms > self._grace_ms // 2:
            raise LostRace(f"round {self.name} took too long: its files may be gone")

    def finish(self, files: Iterable[DataFile]) -> None:
        """Note which files count, right after the commit."""
        paths = msgspec.json.encode([file.path for file in files])
        try:
            self._place.put_new(f"{FOLDER}/{self.name}{_DONE}", paths)
        except ObjectExists:
            return  # a retry's own


def sweep(table: Table, grace_ms: int = GRACE_MS) -> int:
    """Delete what rounds of long ago left behind; return how many files were deleted."""
    place = table.place
    notes = {row.key.rpartition("/")[2]: row for row in place.find(FOLDER)}
    if not notes:
        return 0
    now_ms = place.now_ms()
    old = [
        name.removesuffix(_BEGUN)
        for name, row in notes.items()
        if name.endswith(_BEGUN) and row.modified_ms < now_ms - grace_ms
    ]
    if not old:
        return 0
    deleted = 0
    for folder in (table, table.dead_letters()):
        deleted += _sweep_files(folder, table.place, old, notes.keys())
    place.delete([f"{FOLDER}/{name}{end}" for name in old for end in (_BEGUN, _DONE)])
    return deleted


def _sweep_files(table: Table, noted: TableFolder, old: list[str], notes: Iterable[str]) -> int:
    rounds: dict[str, list[str]] = {}
    for row in table.place.find(table.folder.rstrip("/")):
        if (round_number := round_of(row.key)) in old:
            rounds.setdefault(round_number, []).append(row.key)
    doomed: list[str] = []
    for name, paths in rounds.items():
        if f"{name}{_DONE}" in notes:
            done = msgspec.json.decode(noted.read(f"{FOLDER}/{name}{_DONE}"), type=list[str])
            doomed += sorted(set(paths) - set(done))
        elif not table.has_round(name):
            doomed += paths
        else:
            # It died right after its commit. Which files count is for the table to know: kept.
            doomed += [path for path in paths if f"/{STAGED}" in f"/{path}"]
    table.place.delete(doomed)
    return len(doomed)


def round_of(path: str) -> str:
    """The round a file was written in, by its name; nothing for files of other programs."""
    name = path.rpartition("/")[2]
    parts = name.removesuffix(".parquet").split("-")
    is_ours = name.endswith(".parquet") and len(parts) == 4 and parts[0] == "part"
    return parts[1] if is_ours else ""
