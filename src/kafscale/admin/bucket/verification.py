"""Checking a log in the bucket byte by byte: does it hold what it says, and all of it?

Here: problems as sentences. Next door: finding the log (bucket.py), the command
(cli/bucket/segments.py).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kafscale.log.formats import index, keys, segment
from kafscale.log.protocol.survey import LiveSegment, LogSurvey, in_words
from kafscale.model.errors import BadBatch, CorruptObject, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.records import batch


class Verification(NamedTuple):
    """What was read of a piece, or of whole logs, and what is wrong with it."""

    records: int
    size: int
    problems: list[str]


async def verify_logs(
    store: ObjectStore, views: Sequence[LogSurvey], on_checked: Callable[[int], None]
) -> Verification:
    """Read every segment of logs and check it; `on_checked` is told how many are done."""
    problems = [text for view in views for text in check_joints(view)]
    pieces = [(view, piece) for view in views for piece in view.pieces]
    records = size = 0
    for done, (view, piece) in enumerate(pieces, start=1):
        checked = await check_piece(store, piece, view.indexes)
        records, size = records + checked.records, size + checked.size
        problems += checked.problems
        on_checked(done)
    return Verification(records, size, problems)


def check_joints(view: LogSurvey) -> list[str]:
    """Whether each piece begins where the one before it ends."""
    problems = list(view.problems)
    for before, after in zip(view.pieces, view.pieces[1:], strict=False):
        if after.base != before.end:
            problems.append(
                f"{after.key}: begins at {after.base}, the one before ends at {before.end}"
            )
    past = [piece for piece in view.pieces if piece.kind == "history"]
    if past and past[-1].end != view.manifest.end:
        problems.append(
            f"{view.folder}: manifest {view.manifest.generation} ends at {view.manifest.end}, "
            f"its last segment at {past[-1].end}"
        )
    return problems


async def check_piece(
    store: ObjectStore, piece: LiveSegment, indexes: frozenset[str]
) -> Verification:
    """Read one segment and its index and check everything they claim."""
    try:
        data = await store.read(piece.key)
        content = segment.parse(data)
    except ObjectMissing:
        return Verification(0, 0, [f"{piece.key}: missing, though the manifest names it"])
    except (CorruptObject, BadBatch) as bad:
        return Verification(0, 0, [f"{piece.key}: {bad}"])
    problems = [f"{piece.key}: {text}" for text in _contradictions(piece, content)]
    problems += [
        f"{piece.key}: {text}" for text in _bad_batches(data, content, piece.entry is None)
    ]
    index_key = keys.index_of(piece.key)
    if index_key in indexes:
        problems += await _check_index(store, index_key, data, content)
    elif piece.entry is not None and piece.entry.has_index:
        problems.append(f"{index_key}: missing, though the manifest names it")
    return Verification(content.records, len(data), problems)


def _contradictions(piece: LiveSegment, content: segment.Segment) -> Iterator[str]:
    if (content.base, content.end) != (piece.base, piece.end):
        yield f"holds {content.base} to {content.end - 1}, not {piece.base} to {piece.end - 1}"
    if piece.entry is not None and content.content_id != piece.entry.content_id:
        yield "not the object that the manifest names: its content id differs"


def _bad_batches(data: memoryview, content: segment.Segment, dense: bool) -> Iterator[str]:
    """Checksums, and offsets: a flush leaves none out, rewritten history may, nothing repeats."""
    for span in content.spans:
        stop = span.start + span.length
        at, offset = span.start, span.first
        for position, header in batch.walk(data, span.start, stop):
            first = header.base_offset
            if not batch.check_crc(data[position:stop]):
                yield f"the checksum of the batch at byte {position} does not match"
            if first < offset or (dense and first != offset):
                yield f"the batch at byte {position} begins at offset {first}, expected {offset}"
            at, offset = position + header.size, header.next_offset
        if at != stop or offset != span.last + 1:
            yield f"lane {span.lane} ends at offset {offset - 1}, not {span.last}"


async def _check_index(
    store: ObjectStore, key: str, data: memoryview, content: segment.Segment
) -> list[str]:
    batches = {
        position: index.address(span.lane, header.base_offset)
        for span in content.spans
        for position, header in batch.walk(data, span.start, span.start + span.length)
    }
    try:
        found = index.decode(await store.read(key))
    except CorruptObject as bad:
        return [in_words(key, bad)]
    except ObjectMissing:
        return [f"{key}: gone since it was listed"]
    return [
        f"{key}: no batch of offset {index.from_address(address)[1]} at byte {position}"
        for address, position in zip(found.addresses, found.positions, strict=True)
        if batches.get(position) != address
    ]
