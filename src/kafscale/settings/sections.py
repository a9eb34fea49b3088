"""The settings of a broker, section by section: names, types, defaults.

Here: one struct per section. A YAML key is the attribute's name in camelCase, and
docs/operating/configuration.md lists them all (a test compares it with this file).
Next door: all sections together (config.py), what a value may look like (values.py).
"""

import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from kafscale.model.security.secret import Secret
from kafscale.settings.values import (
    Acks1,
    BrokerId,
    ClientAuth,
    CompressionType,
    Encryption,
    FormatVersion,
    Limit,
    LogFormat,
    LogLevel,
    MappedTopics,
    PlacementKind,
    Placements,
    PositiveSize,
    Principals,
    Seconds,
    Size,
    SqliteSynchronous,
    TurnLimit,
    Validation,
)
from kafscale.virtual.arithmetic import DEFAULT_RANGE

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
TenantName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._=-]+$")]
EtcdPrefix = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._/-]*$", max_length=200)]
Samples = Annotated[int, Meta(ge=2, le=1000)]
Milliseconds = Annotated[int, Meta(ge=0)]
CpuShare = Annotated[float, Meta(gt=0, le=1)]
Price = Annotated[float, Meta(ge=0)]
MillisecondsOrForever = Annotated[int, Meta(ge=-1)]

OBJECTS_FOLDER: Final = "objects"  # below broker.dataDir
METADATA_FILE: Final = "metadata.db"
_MI: Final = 1024 * 1024
_ETCD_PORT: Final = 2379
_PORT_AT_END: Final = re.compile(r":[0-9]+$")


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of settings."""


class BrokerSection(Section, frozen=True):
    """The identity of this broker, and where it listens."""

    id: BrokerId | None = None  # None: allocated once and remembered in the metadata store
    host: str = "127.0.0.1"
    port: Port = 9092  # 0: any free one
    metrics_port: Port = 9093
    advertised_host: str | None = None
    advertised_port: Port | None = None
    rack: str | None = None
    allow_insecure_bind: bool = False
    data_dir: str = "./data"


class NetworkSection(Section, frozen=True):
    """Limits of one client, and of all together."""

    max_connections: AtLeastOne = 10000
    max_connections_per_ip: Count = 0  # 0: no cap
    max_request_size: PositiveSize = PositiveSize(100 * _MI)
    socket_send_buffer: PositiveSize | None = None  # None: the system tunes it
    socket_receive_buffer: PositiveSize | None = None
    connection_timeout: Seconds = Seconds(30)
    idle_timeout: Seconds = Seconds(600)
    request_timeout: Seconds = Seconds(60)
    max_in_flight_bytes: PositiveSize = PositiveSize(256 * _MI)
    max_in_flight_bytes_per_connection: PositiveSize = PositiveSize(64 * _MI)


class S3Section(Section, frozen=True):
    """The bucket. Without one, objects are files under broker.dataDir."""

    bucket: str | None = None
    region: str = "us-east-1"
    endpoint: str | None = None
    path_style: bool = False
    access_key: Secret | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    part_size: PositiveSize = PositiveSize(16 * _MI)
    concurrency: AtLeastOne = 64
    max_retries: Count = 3
    max_idle_conns: AtLeastOne = 100
    max_idle_conns_per_host: AtLeastOne | None = None  # None: max_idle_conns; there is one host
    idle_conn_timeout: Seconds = Seconds(90)
    connect_timeout: Seconds = Seconds(5)
    request_timeout: Seconds = Seconds(30)
    storage_class: str | None = None  # None: what the bucket does by itself
    server_side_encryption: Encryption | None = None
    kms_key_id: str | None = None

    @property
    def url(self) -> str:
        """The bucket with its scheme."""
        bucket = self.bucket or ""
        return bucket if "://" in bucket else f"s3://{bucket}"

    @property
    def idle_connections(self) -> int:
        """How many open connections are kept for later."""
        return min(self.max_idle_conns, self.max_idle_conns_per_host or self.max_idle_conns)


class EtcdTlsSection(Section, frozen=True):
    """TLS to etcd."""

    enabled: bool = False
    cert_file: str | None = None
    key_file: str | None = None
    ca_file: str | None = None


class EtcdSection(Section, frozen=True):
    """The metadata store of a fleet. Without endpoints it is a file under broker.dataDir."""

    endpoints: list[str] = []
    dial_timeout: Seconds = Seconds(5)
    request_timeout: Seconds = Seconds(10)
    lease_ttl: Seconds = Seconds(10)
    gather_time: Seconds = Seconds(2)
    username: str | None = None
    password: Secret | None = None
    prefix: EtcdPrefix = ""  # before every key, for fleets that share an etcd
    tls: EtcdTlsSection = EtcdTlsSection()

    def targets(self) -> tuple[str, ...]:
        """The endpoints as host:port."""
        return tuple(_target(endpoint) for endpoint in self.endpoints)

    def is_encrypted(self) -> bool:
        """Whether TLS is asked for, by its setting or by an https:// endpoint."""
        return self.tls.enabled or any(one.startswith("https://") for one in self.endpoints)


def _target(endpoint: str) -> str:
    address = endpoint.removeprefix("https://").removeprefix("http://").rstrip("/")
    return address if _PORT_AT_END.search(address) else f"{address}:{_ETCD_PORT}"


class CompactionSection(Section, frozen=True):
    """What a broker spends on compacting topics by key."""

    max_bytes: Size = Size(1024 * _MI)  # 0: every log is the pipeline's
    memory_bytes: PositiveSize = PositiveSize(256 * _MI)
    cpu_share: CpuShare = 0.2


class StorageSection(Section, frozen=True):
    """How records become objects."""

    namespace: str = "default"
    segment_bytes: PositiveSize = PositiveSize(100 * _MI)
    index_interval_bytes: PositiveSize = PositiveSize(4096)
    placement: PlacementKind = "dedicated"  # of topics without one of their own
    placement_by_namespace: Placements = Placements({})  # before the one above
    shared_logs: Count = 0  # 0: one per broker
    flush_bytes: PositiveSize = PositiveSize(4 * _MI)
    flush_interval_ms: Milliseconds | None = None  # None: see Config.flush_interval_ms
    flush_messages: Count = 10000  # 0: records are not counted
    acks1: Acks1 = "durable"
    fsync: bool = False
    sqlite_synchronous: SqliteSynchronous = "NORMAL"
    grace_period: Seconds | None = None  # None: see Config.grace_period_s
    rollup_objects: AtLeastOne = 500
    housekeeping_interval: Seconds = Seconds(30)
    checkpoint_interval: Seconds = Seconds(60)
    compaction: CompactionSection = CompactionSection()
    validation: Validation = "records"


class CacheSection(Section, frozen=True):
    """Memory spent on reading. The defaults suit a laptop."""

    segment_cache_size: Size | None = None  # None: see Config.segment_cache_bytes
    index_cache_size: Size = Size(256 * _MI)
    read_ahead_segments: Count = 3
    tail_cache_size: Size = Size(256 * _MI)


class ConsumerSection(Section, frozen=True):
    """Consumer groups."""

    # Of members of consumer groups; members of classic groups choose their own.
    session_timeout_ms: Milliseconds = 45000
    heartbeat_interval_ms: Milliseconds = 5000
    # Accepted, without effect: see Config.without_effect.
    rebalance_timeout_ms: Milliseconds | None = None
    max_poll_interval_ms: Milliseconds | None = None
    min_session_timeout_ms: Milliseconds = 6000
    max_session_timeout_ms: Milliseconds = 1800000
    initial_rebalance_delay_ms: Milliseconds = 3000
    max_group_size: AtLeastOne = 1000
    max_member_bytes: PositiveSize = PositiveSize(256 * _MI)  # of all groups of a broker
    offsets_retention_minutes: AtLeastOne = 10080
    offsets_retention_check_interval_ms: AtLeastOne = 600000
    offsets_topic: bool = False  # committed offsets can be read as __consumer_offsets, too


class TransactionsSection(Section, frozen=True):
    """Transactional producers."""

    max_timeout_ms: AtLeastOne = 900_000
    id_expiration_ms: AtLeastOne = 604_800_000
    look_interval_ms: AtLeastOne = 1000


class CompressionSection(Section, frozen=True):
    """Compression of topics without a compression.type of their own."""

    type: CompressionType = "producer"


class TopicsSection(Section, frozen=True):
    """Settings of topics that have none of their own."""

    auto_create: bool = True
    default_partitions: AtLeastOne = 1
    max_partitions: AtLeastOne = 1024
    max_virtual_partitions: AtLeastOne = 100_000
    retention_ms: MillisecondsOrForever = 604800000
    retention_bytes: Limit = Limit(-1)
    max_message_bytes: PositiveSize = PositiveSize(1048588)
    message_format_version: FormatVersion = FormatVersion("3.0-IV1")


class MappingSection(Section, frozen=True, rename=None):
    """How many partitions clients see, on how many logs; the names are those of the remapper."""

    virtual_partitions: AtLeastOne | None = None
    physical_partitions: AtLeastOne | None = None  # None: one log per partition
    offset_range: AtLeastOne = DEFAULT_RANGE
    topics: MappedTopics = MappedTopics({})


class AuthorizationSection(Section, frozen=True):
    """Whether clients may do only what access control lists allow."""

    enabled: bool = False
    super_users: Principals = Principals(())
    allow_everyone_if_no_acl_found: bool = False


class FluvioSection(Section, frozen=True):
    """The ports for Fluvio clients, at the host of the first listener."""

    enabled: bool = True
    sc_port: Port | None = None  # None: 9003, and no door if it is taken; 0: any free one
    spu_port: Port | None = None  # None: 9005, in the same way
    advertised_host: str | None = None  # None: that of the first listener
    advertised_sc_port: Port | None = None
    advertised_spu_port: Port | None = None
    protocol: Literal["PLAINTEXT", "SSL"] = "PLAINTEXT"
    # What is not said here, the section `tls` says.
    cert_file: str | None = None
    key_file: str | None = None
    ca_file: str | None = None
    client_auth: ClientAuth | None = None
    smart_modules: bool = True  # programs of clients are run on records
    smart_module_memory: PositiveSize = PositiveSize(32 * _MI)  # of each of them
    most_smart_modules: AtLeastOne = 32


class LoggingSection(Section, frozen=True):
    """Log lines."""

    level: LogLevel = "info"
    format: LogFormat | None = None  # None: text on a terminal, json elsewhere
    long_turns: TurnLimit | None = None  # None: they are not looked for


class PulsarSection(Section, frozen=True):
    """The door for Pulsar clients. It listens where a listener of Kafka's does: `listener`, or the
    first one. Clients prove who they are as at `listener`; without it they are not asked.
    """

    enabled: bool = True
    port: Port | None = None  # None: 6650, and no door if that is taken; 0: any free one
    advertised_host: str | None = None  # None: the host of the first listener
    advertised_port: Port | None = None
    http_port: Port | None = None  # of the admin API; None: there is none; 0: any free one
    tenant: TenantName = "public"  # of topics whose name has none
    namespace: TenantName = "default"
    auto_create_namespaces: bool = True  # False: topics only in namespaces that were made
    listener: str | None = None  # of Kafka's: its host, certificates and logins are this door's
    deduplication: bool = False  # of topics that do not say it themselves
    proxy_through_service_url: bool = False  # clients reach all brokers by one address


class QuotaSection(Section, frozen=True):
    """How the rates of clients are measured; the names are Kafka's."""

    window_num: Samples = 11
    window_size_seconds: AtLeastOne = 1


class AuditSection(Section, frozen=True):
    """The audit log."""

    file: str | None = None  # None: lines go to the broker's log
    max_file_size: PositiveSize = PositiveSize(100 * _MI)
    max_files: AtLeastOne = 10


class ConsoleTlsSection(Section, frozen=True):
    """TLS between browsers and the console."""

    cert_file: str | None = None
    key_file: str | None = None


class ConsoleSection(Section, frozen=True):
    """The web console, a process beside the broker. Credentials are no settings: see console.md."""

    enabled: bool = True  # whether `kafscale serve` and `kafscale cluster up` start it
    host: str = "127.0.0.1"
    port: Port | None = None  # None: 8080, and no console if it is taken; 0: any free one
    base_path: str = "/"  # the path below which a proxy shows it
    read_only: bool = False
    show_values: bool = True  # false: keys, values and headers of records are hidden
    allowed_hosts: list[str] = []  # names that browsers may use for it, besides its address
    trusted_proxies: list[str] = []  # addresses whose X-Forwarded-* headers count
    tls: ConsoleTlsSection = ConsoleTlsSection()
    allow_insecure_bind: bool = False
    bootstrap: str | None = None  # None: the broker that it is started with
    metrics: list[str] = []  # none: the pages that the brokers name
    sql: bool = False  # whether people may query topics by SQL; Spark runs beside it
    schema_registry: str | None = None  # where the schemas of framed records are
    prometheus: str | None = None  # a server that keeps the brokers' metrics for weeks
    audit_topic: str | None = None  # where a copy of what was done in the console goes


class PricesSection(Section, frozen=True):
    """What the bucket's provider charges, in any currency. The defaults: S3 in us-east-1, USD."""

    currency: str = "USD"
    storage_gb_month: Price = 0.023
    put_per_1000: Price = 0.005
    get_per_1000: Price = 0.0004
    list_per_1000: Price = 0.005
    delete_per_1000: Price = 0.0
    written_gb: Price = 0.0
    read_gb: Price = 0.0  # within a region
