"""Offsets by time: the first record of a partition that is not older than a moment.

Here: the same answer a broker gives to the same question. Objects and batches whose latest
record is older are passed over; of the rest, one batch is opened.
Next door: what it is asked for (offsets.py).
"""

from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels.decoder import PartitionWindow, RecordDecoder
from kafscale.spark.source.fetching import pieces
from kafscale.spark.views import PartitionView

_MICROS = 1000


def first_at_or_after(bucket: Bucket, view: PartitionView, time_ms: int) -> int | None:
    """The offset of that record; None if all are older."""
    young = [
        s for s in view.stored_ranges if s.max_timestamp_ms >= time_ms and s.last >= view.start
    ]
    decoder = RecordDecoder(("offset", "timestamp"))
    lane = PartitionWindow(view.topic, view.partition, view.start, view.end, time_ms)
    for stored in young:
        for batch in decoder.decode(lane, pieces(bucket, [stored])):
            times = batch.column(1).cast("int64").to_numpy(zero_copy_only=False)
            at = (times >= time_ms * _MICROS).argmax()
            if times[at] >= time_ms * _MICROS:
                return int(batch.column(0)[int(at)].as_py())
    return None
