"""How the parts of this sub-room are put together. Next door: the verbs (partitions.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.appends import Appends
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.engine.partitions.refused import RefusedBatches
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.log.reader.reader import Reader
from kafscale.log.writer.log import Log
from kafscale.model.clock import Clock
from kafscale.tasks import Tasks

_LARGEST_OPENED_BYTES: Final = 128 << 20

LogFactory = Callable[[Topic | None, str], Log]  # topic, None for a shared log; folder


@dataclass(frozen=True, slots=True)
class PartitionParts:
    """What this sub-room is made of."""

    partitions: Partitions
    logs: OpenLogs
    appends: Appends


def build_partitions(
    topics: TopicRegistry,
    make_log: LogFactory,
    reader: Reader,
    store_gate: StoreGate,
    producer_ids: ProducerIds,
    cluster: Membership,
    clock: Clock,
    tasks: Tasks,
    *,
    walk_records: bool,
    on_used_up: Callable[[str], None],
) -> PartitionParts:
    """Put the parts together. `make_log` makes a log that is not open yet.

    `on_used_up` hears the name of a topic with a partition that has no free offsets any more.
    """
    refused = RefusedBatches(clock)
    logs = OpenLogs(make_log, cluster, refused.note)
    appends = Appends(
        logs,
        refused,
        clock,
        store_gate,
        largest_opened_bytes=_LARGEST_OPENED_BYTES,
        walk_records=walk_records,
        on_used_up=on_used_up,
    )
    partitions = Partitions(topics, logs, appends, producer_ids, reader, cluster, clock, tasks)
    return PartitionParts(partitions, logs, appends)
