"""What all connections of a proxy share."""

import asyncio
from dataclasses import dataclass, field

from kafscale.model.clock import Clock
from kafscale.model.endpoints import Endpoint
from kafscale.proxy.access.front import FrontAccess
from kafscale.proxy.coordination.members import Members
from kafscale.proxy.coordination.offsets import VirtualOffsets
from kafscale.proxy.coordination.topics import TopicMap
from kafscale.proxy.metrics import ProxyMetrics
from kafscale.proxy.partitions.open_partitions import PhysicalPartitions
from kafscale.proxy.partitions.reading import LaneReader
from kafscale.proxy.upstream.acls import UpstreamAcls
from kafscale.proxy.upstream.cluster import Upstream
from kafscale.tasks import Tasks


@dataclass(slots=True)
class ProxyContext:
    """The parts that requests are answered with."""

    upstream: Upstream
    topics: TopicMap
    members: Members
    partitions: PhysicalPartitions
    reader: LaneReader
    offsets: VirtualOffsets
    clock: Clock
    tasks: Tasks
    ledger_topic: str
    metrics: ProxyMetrics
    opened: asyncio.Event  # until then clients' requests wait: the proxy is not among its peers
    acls: UpstreamAcls | None = None  # of the upstream; None: clients may do everything
    access: FrontAccess | None = None  # that decides by them
    # Upstream brokers as the clients of each listener see them.
    doors: dict[str, dict[int, Endpoint]] = field(default_factory=dict)
