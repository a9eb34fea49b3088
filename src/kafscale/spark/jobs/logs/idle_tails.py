"""Rolling up the tail of a log that no broker has written to for a while.

The owner of a log rolls up its tail. Here a job does that for an abandoned tail. It opens the log
as a broker does, from the bucket alone, and rolls up what is committed, naming the flushes as they
are: rule 12, and the same steps as an owner that never writes. This is safe whether or not an owner
is alive; the job waits until the tail is idle only to keep out of the owner's way.
Next door: rewriting the history (compaction/merge.py).
"""

from kafscale.log.protocol.survey import LogSnapshot
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket

_FOREVER_MS = 1 << 62


def is_idle(log: LogSnapshot, now_ms: int, idle_s: float) -> bool:
    """Whether there is a sound tail to which nothing was added for `idle_s`; negative: never."""
    written = [piece.modified_ms for piece in log.tail if piece.modified_ms is not None]
    if not written or log.problems or idle_s < 0:
        return False
    return now_ms - max(written) >= idle_s * 1000


def roll_up(bucket: Bucket, folder: str) -> bool:
    """Roll up the committed tail, object by object; False if another writer was faster."""

    async def work(store: ObjectStore) -> bool:
        log = Log(
            store,
            folder,
            epoch=0,  # stamped on what is appended: nothing will be
            author="pipeline",
            # Which producers may be forgotten is the broker's to decide.
            settings=LogSettings(producer_expiry_ms=_FOREVER_MS),
            memory=TailMemory(1 << 40),
            clock=bucket.clock,
            dice=bucket.dice,
        )
        await log.open()
        try:
            end = log.committed.end
            await rollup.roll_up(log, merge=False)
            return log.committed.manifest.end >= end
        finally:
            await log.abandon()

    return bucket.run(work)
