"""The highest numbers that a log has seen: producer ids and leader epochs.

Here: reading a manifest's marks and the headers of the batches behind it, for whoever must give
out numbers that nobody had before. Next door: looking at logs (survey.py).
Never here: batches of the past; what producers did there is in the manifest's marks.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kafscale.log.formats import segment
from kafscale.log.protocol import survey
from kafscale.log.protocol.survey import Piece, Snapshot
from kafscale.model.errors import CorruptObject, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.records import batch

# Clients may call themselves by any id below 2^62. One that is far from all that were ever given
# out was made up, and must not use up the room above it.
STRANGE_ID: Final = 1 << 61


class Highest(NamedTuple):
    """What was found in one log; -1 where there was nothing."""

    producer_id: int
    epoch: int
    lanes: dict[int, tuple[int, int]]  # log start and next offset
    problems: list[str]


async def look(store: ObjectStore, folder: str) -> Highest:
    """Read one log as far as its chain holds."""
    while True:
        seen = await survey.snapshot(store, folder)
        marks, problems = list(_of_manifest(seen)), list(seen.problems)
        try:
            for piece in seen.tail:
                try:
                    marks.append(await _of_piece(store, piece))
                except CorruptObject as bad:
                    problems.append(survey.in_words(piece.key, bad))
        except ObjectMissing:
            continue  # rolled up and swept meanwhile: the manifest knows it now
        return Highest(
            max((known for known, _ in marks if known < STRANGE_ID), default=-1),
            max((epoch for _, epoch in marks), default=-1),
            seen.lanes(),
            problems,
        )


def _of_manifest(seen: Snapshot) -> Iterator[tuple[int, int]]:
    for mark in seen.manifest.lanes.values():
        yield from ((-1, epoch) for epoch, _ in mark.epochs)
        yield from ((known.producer_id, -1) for known in mark.producers)


async def _of_piece(store: ObjectStore, piece: Piece) -> tuple[int, int]:
    data = await store.read(piece.key)
    producer_id = epoch = -1
    for span in segment.parse(data).spans:
        for _, header in batch.walk(data, span.start, span.start + span.length):
            if header.producer_id < STRANGE_ID:
                producer_id = max(producer_id, header.producer_id)
            epoch = max(epoch, header.leader_epoch)
    return producer_id, epoch
