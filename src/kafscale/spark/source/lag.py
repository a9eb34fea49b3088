"""How far a streaming query is behind its topics, from what Spark reports of its progress.

Here: the difference between where a trigger ended and where the logs end, which
`reportLatestOffset` (stream.py) tells. Never here: reading the bucket; each trigger does that once.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafscale.spark.source.plan import offsets


class StreamLag(NamedTuple):
    """Offsets that are there and not read yet, in all and by partition."""

    records: int
    partitions: dict[str, dict[str, int]]


def stream_lag(progress: Any) -> StreamLag | None:
    """Of `query.lastProgress` or of the progress in a StreamingQueryListener.

    None where Spark told no end: before the first trigger, or a Spark before 4.2.
    """
    if progress is None:
        return None
    behind: offsets.PartitionOffsets = {}
    known = False
    for source in _get(progress, "sources") or ():
        reached, latest = _offsets(source, "endOffset"), _offsets(source, "latestOffset")
        if reached is None or latest is None:
            continue
        known = True
        begun = _offsets(source, "startOffset") or {}
        for place, end in latest.items():
            at = reached.get(place, begun.get(place, 0))
            behind[place] = behind.get(place, 0) + max(end - at, 0)
    return StreamLag(sum(behind.values()), offsets.to_json(behind)) if known else None


def _offsets(source: Any, name: str) -> offsets.PartitionOffsets | None:
    offsets_read = _get(source, name)
    if isinstance(offsets_read, str):
        try:
            offsets_read = json.loads(offsets_read)
        except ValueError:
            return None  # another kind of source: its offsets are its own business
    if not isinstance(offsets_read, Mapping):
        return None
    try:
        return offsets.from_json(offsets_read)
    except (TypeError, ValueError, AttributeError):
        return None


def _get(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)
