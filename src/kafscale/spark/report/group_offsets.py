"""What groups have committed, for their lag: from the metadata store or from the bucket.

Here: where it is read, and what the report says about that. A metadata file is as of now; the
bucket has what was committed when the last checkpoint was taken.
Next door: the arithmetic (statistics.py), checkpoints (log/catalog/checkpoints.py).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kafscale.log.catalog import checkpoints
from kafscale.metadata import keys
from kafscale.model.errors import InvalidRequest
from kafscale.model.topics import iso_time
from kafscale.settings import locations, stores
from kafscale.spark.bucket import Bucket

GroupOffsets = dict[
    tuple[str, str, int], tuple[int, str]
]  # group, topic, partition: offset, topic id


class Committed(NamedTuple):
    """What was found, where, and how old it is."""

    offsets: GroupOffsets
    source: str
    age_s: int | None = None  # None: as of now, or there is none
    known: bool = True


def committed(bucket: Bucket, metadata: Path | None) -> Committed:
    """Read a named metadata file, else the one beside the objects, else the last checkpoint."""
    file = metadata or locations.find_metadata_file(bucket.where)
    if file is None:
        return _from_bucket(bucket)
    if not file.is_file():
        raise InvalidRequest(f"{file}: there is no such file")
    rows = ((entry.key, entry.value) for entry in stores.read_metadata_file(file, keys.CONSUMERS))
    return Committed(_read(rows), f"offsets of groups are from {file}")


def _from_bucket(bucket: Bucket) -> Committed:
    checkpoint = bucket.run(checkpoints.newest, bucket.namespace)
    if checkpoint.checkpoint is None:
        reasons = [*checkpoint.problems, "--metadata names the broker's metadata.db"]
        text = "the lag of groups is not known: no checkpoint in the bucket; " + "; ".join(reasons)
        return Committed({}, text, known=False)
    head = checkpoint.checkpoint.head
    age_s = max(0, bucket.clock.now_ms() - head.created_ms) // 1000
    source = (
        f"offsets of groups are from the bucket's checkpoint of {iso_time(head.created_ms)}, "
        f"{age_s} s ago"
    )
    rows = ((key, bytes(value)) for key, value in checkpoint.checkpoint.rows)
    return Committed(_read(rows), "; ".join([source, *checkpoint.problems]), age_s)


def _read(rows: Iterable[tuple[str, bytes]]) -> GroupOffsets:
    offsets: GroupOffsets = {}
    for key, raw in rows:
        place, group = keys.place_committed_by(key), keys.group_named_by(key)
        if place is not None and group is not None:
            value = keys.decode(keys.CommittedOffset, raw)
            offsets[group, *place] = (value.offset, value.topic_id)
    return offsets
