"""Following a topic: at most so many records a second, merged by time; what is left out is counted.

Here: one tail, run in a thread of its own. Next door: searches (search.py).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kafscale.admin.records.scanning import ScannedRecord, Scanner
from kafscale.console.answers.record_shapes import ProgressEvent, RecordsEvent, TailRequest
from kafscale.console.records.decoders import row_of
from kafscale.console.records.search import RecordTest
from kafscale.model.clock import Clock

MOST_PER_S: Final = 200
_EVERY_S: Final = 0.5


def follow(
    scanner: Scanner,
    request: TailRequest,
    starts: Mapping[int, int],
    test: RecordTest,
    clock: Clock,
    *,
    is_shown: bool,
    is_stopped: Callable[[], bool],
) -> Iterator[RecordsEvent | ProgressEvent | None]:
    """Yield records as they come; None: nothing has come for a while."""
    began_s = told_s = clock.elapsed_s()
    waiting: list[ScannedRecord] = []
    most = int(MOST_PER_S * _EVERY_S)
    skipped = looked_at = size = found = 0
    for batch in scanner.follow(starts, is_stopped):
        for record in batch:
            looked_at += 1
            size += record.size
            if test.fits(record):
                found += 1
                waiting.append(record)
        if len(waiting) > most:  # the newest stay
            waiting.sort(key=_order)
            skipped += len(waiting) - most
            del waiting[:-most]
        now_s = clock.elapsed_s()
        if now_s - told_s < _EVERY_S:
            continue
        told_s = now_s
        if not waiting:
            yield None
            continue
        rows = [
            row_of(
                record, request.key_as, request.value_as, is_shown=is_shown, schemas=test.schemas
            )
            for record in sorted(waiting, key=_order)
        ]
        yield RecordsEvent(records=rows, skipped=skipped)
        yield ProgressEvent(
            looked_at=looked_at,
            of=None,
            bytes=size,
            found=found,
            seconds=round(now_s - began_s, 3),
            reached_ms=rows[-1].timestamp_ms,
            not_evaluated=test.not_evaluated,
        )
        waiting, skipped = [], 0


def _order(record: ScannedRecord) -> tuple[int, int, int]:
    return record.timestamp_ms or 0, record.partition, record.offset
