"""Seals: the last batch of a lane whose topic moves away or has been deleted (rules 14 and 15).

Here: sealing lanes of an open log, the seal that a job appends, and what stands for a seal in the
lane that goes on. A move takes one offset, the seal's; in the new place it holds no record.
Next door: appending one seal (writer/log.py), copying the batches before it (copying.py).
"""

from collections.abc import Collection

from kafscale.log.formats.producers import SEALER
from kafscale.log.formats.segment import LaneBatches
from kafscale.log.writer.job_appender import JobAppender
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import wait_for_commit
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.records.control import control_batch


async def seal_all(log: Log, lanes: Collection[int]) -> dict[int, int]:
    """Seal lanes of an open log, all with one flush; gives their ends.

    An end is reported when its seal is committed, by any writer (rule 15).
    """
    with log.one_flush():
        sealed = [log.seal(lane) for lane in lanes]
    for appended in sealed:
        if appended.committed is not None:
            await wait_for_commit(appended.committed)
    return {lane: log.lane(lane).high for lane in lanes}


def for_appender(log: JobAppender, lane: int, now_ms: int) -> LaneBatches:
    """The seal that a job appends to a lane."""
    seal = memoryview(control_batch(now_ms, SEALER))
    offset = log.next(lane)
    batch.stamp(seal, offset, log.epoch(lane))
    return LaneBatches(lane, offset, offset, 1, now_ms, now_ms, [seal])


def unsealed(seal: BatchHeader) -> tuple[BatchHeader, memoryview]:
    """What stands for a seal in the lane that goes on: no record, at the seal's offset."""
    data = memoryview(control_batch(seal.base_timestamp_ms))
    batch.stamp(data, seal.base_offset, seal.leader_epoch)
    return batch.read_header(data), data
