"""The objects that the control port tells clients of: SPUs, partitions, topics.

Here: their tables and the numbers of their states. An object has a name, a spec and a status.
Next door: the messages that carry objects (messages/watch.py, messages/list_objects.py).
"""

from typing import Annotated, Final

from kafscale.wire.fluvio.schema import I32, I64, U8, U16, U32, U64, FluvioTable, OneOf, VersionSpan

SPU: Final = "SPU"
PARTITION: Final = "Partition"
TOPIC: Final = "Topic"

CUSTOM_SPU: Final = 1
SPU_ONLINE: Final = 0
SPU_OFFLINE: Final = 1
PARTITION_OFFLINE: Final = 0
PARTITION_ONLINE: Final = 1
PARTITION_LEADER_OFFLINE: Final = 2
TOPIC_PROVISIONED: Final = 4
ANY_COMPRESSION: Final = 4
SIZE_UNKNOWN: Final = -2

# The numbers of a topic's compression are not those of a batch's codec.
TOPIC_COMPRESSION: Final = {0: "uncompressed", 1: "gzip", 2: "snappy", 3: "lz4", 5: "zstd"}


class Ingress(FluvioTable, frozen=True):
    """A public address; the client takes the first one, by its name if it has one."""

    hostname: str | None = None
    ip: str | None = None


class PublicEndpoint(FluvioTable, frozen=True):
    port: U16 = 0
    ingress: list[Ingress] = []
    encryption: U8 = 0


class HostEndpoint(FluvioTable, frozen=True):
    port: U16 = 0
    host: str = ""
    encryption: U8 = 0


class SpuObject(FluvioTable, frozen=True):
    """A broker, as Fluvio's clients see it."""

    name: str = ""
    id: I32 = 0
    spu_type: U8 = CUSTOM_SPU
    public_endpoint: PublicEndpoint = PublicEndpoint()
    private_endpoint: HostEndpoint = HostEndpoint()
    rack: str | None = None
    public_endpoint_local: Annotated[HostEndpoint | None, VersionSpan(1)] = None
    resolution: U8 = SPU_ONLINE


class Segment(FluvioTable, frozen=True):
    """The one cleanup policy: how old records become."""

    seconds: U32 = 0


class Storage(FluvioTable, frozen=True):
    segment_size: U32 | None = None
    max_partition_size: U64 | None = None


class Duration(FluvioTable, frozen=True):
    seconds: U64 = 0
    nanos: U32 = 0


class Deduplication(FluvioTable, frozen=True):
    count: U64 = 0
    age: Duration | None = None
    uses: str = ""
    parameters: dict[str, str] = {}


class RemotePartition(FluvioTable, frozen=True):
    """A partition of a mirror, at the edge."""

    remote_cluster: str = ""
    source_partition: str = ""


class ReplicaStatus(FluvioTable, frozen=True):
    spu: I32 = -1
    hw: I64 = 0
    leo: I64 = 0


CleanupPolicy = Annotated[Segment, OneOf(Segment)]


class PartitionObject(FluvioTable, frozen=True):
    """A partition; its name is the topic's, a dash and its number."""

    name: str = ""
    leader: I32 = -1
    replicas: list[I32] = []
    cleanup_policy: Annotated[CleanupPolicy | None, VersionSpan(4)] = None
    storage: Annotated[Storage | None, VersionSpan(4)] = None
    compression_type: Annotated[U8, VersionSpan(6)] = ANY_COMPRESSION
    deduplication: Annotated[Deduplication | None, VersionSpan(12)] = None
    system: Annotated[bool, VersionSpan(13)] = False
    mirror: Annotated[RemotePartition | None, VersionSpan(14)] = None  # never there
    resolution: U8 = PARTITION_ONLINE
    leader_status: ReplicaStatus = ReplicaStatus()
    lsr: U32 = 0
    replica_statuses: list[ReplicaStatus] = []
    size: Annotated[I64, VersionSpan(5)] = SIZE_UNKNOWN
    is_being_deleted: bool = False
    base_offset: Annotated[I64, VersionSpan(16)] = 0


class AssignedPartition(FluvioTable, frozen=True):
    id: U32 = 0
    replicas: list[I32] = []
    mirror: Annotated[RemotePartition | None, VersionSpan(14)] = None


class Assigned(FluvioTable, frozen=True):
    """Partitions with the SPUs that the client chose for them."""

    partitions: list[AssignedPartition] = []


class Computed(FluvioTable, frozen=True):
    """Partitions that the cluster places."""

    partitions: U32 = 1
    replication_factor: U32 = 1
    ignore_rack: bool = False


class Mirrored(FluvioTable, frozen=True):
    """A mirror of another cluster. Its fields are not read: such a topic is refused."""


ReplicaSpec = Annotated[Assigned | Computed | Mirrored, OneOf(Assigned, Computed, Mirrored)]


class TopicSpec(FluvioTable, frozen=True):
    """What a topic is asked to be."""

    replicas: ReplicaSpec = Computed()
    cleanup_policy: Annotated[CleanupPolicy | None, VersionSpan(3)] = None
    storage: Annotated[Storage | None, VersionSpan(4)] = None
    compression_type: Annotated[U8, VersionSpan(6)] = ANY_COMPRESSION
    deduplication: Annotated[Deduplication | None, VersionSpan(12)] = None
    system: Annotated[bool, VersionSpan(13)] = False


class TopicStatus(FluvioTable, frozen=True):
    resolution: U8 = TOPIC_PROVISIONED
    replica_map: dict[U32, list[I32]] = {}
    mirror_map: Annotated[dict[U32, U8], VersionSpan(14)] = {}  # always empty
    reason: str = ""


class TopicObject(FluvioTable, frozen=True):
    name: str = ""
    spec: TopicSpec = TopicSpec()
    status: TopicStatus = TopicStatus()
