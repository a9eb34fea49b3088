"""From a topic's offsets to those of the topic it was converted into.

Here: reading the map a conversion left beside its topic, translating a group's committed
offsets, and committing the result through a broker. Where records of several partitions were
mixed, no offset of the new topic means exactly the same: translation goes to the first record
the group has not read, so that it may read some again and misses none.
Next door: writing the map (sink/sealing.py).
"""

import io
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafscale.model.errors import KafscaleError, ObjectMissing
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.sink.sealing import MAP
from kafscale.spark.views import read_views

_TIMEOUT_S: Final = 30.0
_ATTEMPTS: Final = 30
_PAUSE_S: Final = 0.5
_PASSING: Final = frozenset({14, 15, 16})  # the coordinator loads, is not there yet, has moved


def read_map(bucket: Bucket, topic: str) -> pa.Table | None:
    """The map beside a converted topic; None where offsets were kept."""
    folder = f"{bucket.topic(topic).folder}/offset-map"
    try:
        names = json.loads(bytes(bucket.read(f"{folder}/names")))
    except ObjectMissing:
        return None
    tables = [pq.read_table(io.BytesIO(bytes(bucket.read(f"{folder}/{name}")))) for name in names]
    return pa.concat_tables(tables) if tables else MAP.empty_table()


def translate(bucket: Bucket, topic: str, committed: Mapping[int, int]) -> dict[int, int]:
    """Offsets in `topic` for a group that has come so far in the partitions it was made of.

    A partition without a committed offset counts as unread.
    """
    made = bucket.topic(topic)
    table = read_map(bucket, topic)
    if table is None:
        return dict(committed)
    ends = _ends(bucket, made)
    source, first, last, partition, offset = (table.column(name).to_numpy() for name in MAP.names)
    read_up_to = np.zeros(int(source.max(initial=-1)) + 1, np.int64)
    for number, at in committed.items():
        if number < len(read_up_to):
            read_up_to[number] = at
    reached = read_up_to[source]
    unread = last >= reached
    # The first unread record of each run: its beginning, or where the group stands within it.
    targets = (offset + np.maximum(reached - first, 0))[unread]
    translated = dict(ends)
    for number, target in zip(partition[unread].tolist(), targets.tolist(), strict=True):
        translated[number] = min(translated[number], target)
    return translated


def _ends(bucket: Bucket, topic: TopicDescriptor) -> dict[int, int]:
    return {view.partition: view.high for view in read_views(bucket, topic)}


def translate_groups(
    bucket: Bucket, admin: Any, topic: str, to: str, groups: Sequence[str]
) -> list[dict[str, Any]]:
    """Commit, for groups of one topic, the offsets in the topic it was converted into."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    places = [TopicPartition(topic, number) for number in range(bucket.topic(topic).partitions)]
    rows: list[dict[str, Any]] = []
    for group in groups:
        asked = [ConsumerGroupTopicPartitions(group, places)]
        answer = admin.list_consumer_group_offsets(asked)[group].result(_TIMEOUT_S)
        committed = {
            place.partition: place.offset for place in answer.topic_partitions if place.offset >= 0
        }
        if not committed:
            raise KafscaleError(f"group {group!r} has committed nothing for topic {topic!r}")
        new = translate(bucket, to, committed)
        commit_offsets(admin, group, to, new)
        rows += [
            {"group": group, "partition": number, "offset": at}
            for number, at in sorted(new.items())
        ]
    return rows


def commit_offsets(admin: Any, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets for a group that has no members now."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    admin.list_topics(topic, timeout=_TIMEOUT_S)  # so that the broker looks for it
    places = [TopicPartition(topic, number, at) for number, at in sorted(offsets.items())]
    wish = [ConsumerGroupTopicPartitions(group, places)]
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)
        try:
            answer = admin.alter_consumer_group_offsets(wish)[group].result(_TIMEOUT_S)
            failed = [place.error for place in answer.topic_partitions if place.error]
        except KafkaException as refused:
            failed = [refused.args[0]]
        if not failed:
            return
        if not all(error.code() in _PASSING for error in failed):
            break
    raise KafscaleError(f"group {group!r}, topic {topic!r}: {failed[0].str()}")
