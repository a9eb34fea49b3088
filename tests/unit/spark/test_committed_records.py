"""What the pipeline sees of transactions: committed records, up to the last stable offset."""

import pyarrow as pa

from kafscale.log.formats.places import LanePlace
from kafscale.log.protocol import survey
from kafscale.log.upkeep import rollup
from kafscale.objects.memory import MemoryObjectStore
from kafscale.spark.kernels.decoder import ObjectPiece, PartitionWindow, RecordDecoder
from kafscale.spark.views import PartitionView, views_of
from tests.unit.log.log_harness import FOLDER, LogHarness, make_batch
from tests.unit.log.writer.test_transactions import end, in_transaction, write


async def rows_of(harness: LogHarness, view: PartitionView) -> list[tuple[int, bytes]]:
    """All records of a view, decoded as in a worker."""
    pieces = []
    for stored in view.stored_ranges:
        data = await harness.inner.read(stored.key, stored.start, stored.length)
        pieces.append(ObjectPiece(stored.key, stored.start, [data]))
    aborted = tuple(dict.fromkeys(row for one in view.stored_ranges for row in one.aborted))
    window = PartitionWindow("t", 0, view.start, view.end, None, aborted)
    found = pa.Table.from_batches(
        list(RecordDecoder(("offset", "value")).decode(window, pieces)),
        schema=pa.schema([("offset", pa.int64()), ("value", pa.binary())]),
    )
    return list(zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True))


async def look(harness: LogHarness) -> PartitionView:
    snapshot = await survey.take_snapshot(harness.inner, FOLDER)
    (view,) = views_of([("t", 0, LanePlace(FOLDER, 0))], {FOLDER: snapshot})
    return view


async def test_open_and_aborted_records_are_left_out_before_and_after_roll_up() -> None:
    harness = LogHarness(lambda now_ms: MemoryObjectStore(now_ms))
    try:
        log = await harness.open()
        await write(log, in_transaction(b"aborted"))
        await end(log, 1, committed=False)
        await write(log, in_transaction(b"committed", producer=6))
        await end(log, 1, committed=True, producer=6)
        await write(log, in_transaction(b"open", sequence=1))
        await write(log, make_batch(b"behind"))
        for rolls_up in (False, True):
            if rolls_up:
                await rollup.roll_up(log)
            view = await look(harness)
            assert (view.end, view.high) == (4, 6)
            assert await rows_of(harness, view) == [(2, b"committed")]
            everything = await rows_of(harness, view.uncommitted())
            assert [value for _, value in everything] == [
                b"aborted",
                b"committed",
                b"open",
                b"behind",
            ]
    finally:
        await harness.aclose()
