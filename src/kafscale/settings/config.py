"""The configuration of a broker: loading it, and the rules between settings.

Here: Config, load, and every reason to refuse a combination.
Next door: the settings (sections.py), value types (values.py), files, variables and flags
(sources.py).
Never here: opening what is configured (stores.py).
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from kafscale.model.endpoints import PLAINTEXT
from kafscale.model.errors import InvalidMapping
from kafscale.model.topics import TopicDefaults
from kafscale.settings import sources
from kafscale.settings.listeners import (
    AdvertisedListeners,
    ListenerConflict,
    Listeners,
    ListenerSetting,
    check_listeners,
    is_loopback,
    is_unspecified,
    with_advertised,
)
from kafscale.settings.sections import (
    METADATA_FILE,
    OBJECTS_FOLDER,
    BrokerSection,
    CacheSection,
    CompressionSection,
    ConsumerSection,
    EtcdSection,
    LoggingSection,
    MappingSection,
    NetworkSection,
    PricesSection,
    S3Section,
    Section,
    StorageSection,
    TopicsSection,
)
from kafscale.settings.sources import Given
from kafscale.settings.values import MAX_INT32, ConfigError, read_value
from kafscale.virtual.rules import LayoutRules, PartitionLayout


class Config(Section, frozen=True):
    """All of it."""

    broker: BrokerSection = BrokerSection()
    listeners: Listeners | None = None
    advertised_listeners: AdvertisedListeners | None = None
    network: NetworkSection = NetworkSection()
    s3: S3Section = S3Section()
    use_memory_s3: bool = False
    etcd: EtcdSection = EtcdSection()
    storage: StorageSection = StorageSection()
    cache: CacheSection = CacheSection()
    consumer: ConsumerSection = ConsumerSection()
    compression: CompressionSection = CompressionSection()
    topics: TopicsSection = TopicsSection()
    mapping: MappingSection = MappingSection()
    logging: LoggingSection = LoggingSection()
    prices: PricesSection = PricesSection()

    @property
    def store_kind(self) -> Literal["memory", "s3", "files"]:
        """Which object store the settings choose; memory is the one that must be asked for."""
        if self.use_memory_s3:
            return "memory"
        return "s3" if self.s3.bucket else "files"

    @property
    def objects_dir(self) -> Path:
        """The folder of the objects, where the store is files."""
        return Path(self.broker.data_dir) / OBJECTS_FOLDER

    @property
    def metadata_file(self) -> Path:
        """The metadata store, where it is a file."""
        return Path(self.broker.data_dir) / METADATA_FILE

    @property
    def broker_name(self) -> str | None:
        """What an allocated broker id is remembered by; "" for a broker that is never the same.

        None where the metadata store has one broker only.
        """
        if not self.etcd.endpoints:
            return None
        first = self.all_listeners[0]
        endpoint = first.advertised(first.port)
        return f"{endpoint.host}:{endpoint.port}" if endpoint.port else ""

    @property
    def all_listeners(self) -> tuple[ListenerSetting, ...]:
        """The listeners that are given, else the one that broker.host and broker.port mean."""
        broker = self.broker
        rows = self.listeners or (
            ListenerSetting(
                name=PLAINTEXT,
                protocol=PLAINTEXT,
                host=broker.host,
                port=broker.port,
                advertised_host=broker.advertised_host,
                advertised_port=broker.advertised_port,
            ),
        )
        return with_advertised(rows, self.advertised_listeners or ())

    @property
    def flush_interval_ms(self) -> int:
        """A PUT to a bucket costs money and a round trip, one to a file next to nothing."""
        if self.storage.flush_interval_ms is not None:
            return self.storage.flush_interval_ms
        return 500 if self.store_kind == "s3" else 0

    @property
    def grace_period_s(self) -> float:
        """Readers of a bucket may be anywhere; files have one machine, and inodes are few."""
        if self.storage.grace_period is not None:
            return self.storage.grace_period
        return 600.0 if self.store_kind == "s3" else 60.0

    @property
    def segment_cache_bytes(self) -> int:
        """Files are cached by the system already; a bucket is far away."""
        if self.cache.segment_cache_size is not None:
            return self.cache.segment_cache_size
        return (512 if self.store_kind == "s3" else 64) << 20

    @property
    def without_effect(self) -> list[str]:
        """Settings that were given and change nothing.

        Every member of a group chooses these times for itself. Configurations of other brokers
        name them, so they are accepted.
        """
        fields = ("session_timeout_ms", "heartbeat_interval_ms", "rebalance_timeout_ms")
        names = {field.name: field.encode_name for field in msgspec.structs.fields(ConsumerSection)}
        return [
            f"consumer.{names[field]}"
            for field in (*fields, "max_poll_interval_ms")
            if getattr(self.consumer, field) is not None
        ]

    @property
    def placement(self) -> str:
        """Where topics lie that do not say: by the namespace, else by the cluster."""
        storage = self.storage
        return storage.placement_by_namespace.get(storage.namespace, storage.placement)

    @property
    def topic_defaults(self) -> TopicDefaults:
        """What topics get that do not say otherwise."""
        return TopicDefaults(
            retention_ms=self.topics.retention_ms,
            retention_bytes=self.topics.retention_bytes,
            segment_bytes=self.storage.segment_bytes,
            max_message_bytes=self.topics.max_message_bytes,
            index_interval_bytes=self.storage.index_interval_bytes,
            compression_type=self.compression.type,
            acks1=self.storage.acks1,
            message_format_version=self.topics.message_format_version,
            placement=self.placement,
        )

    @property
    def layout_rules(self) -> LayoutRules:
        """Which topics are virtual. Raises InvalidMapping."""
        mapping = self.mapping
        return LayoutRules.of(
            PartitionLayout(
                mapping.virtual_partitions, mapping.physical_partitions, mapping.offset_range
            ),
            mapping.topics,
        )


def load(path: Path | None, env: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """Read the settings: flags beat KAFSCALE_* variables, which beat the YAML file.

    The file is `path`, else the one KAFSCALE_CONFIG names, else none. Flags are named as typed
    (`--port`) or by their whole key (`broker.port`). Raises ConfigError.
    """
    named = env.get(sources.CONFIG_VARIABLE, "").strip()
    file = path or (Path(named) if named else None)
    values: dict[str, Any] = {}
    if file is not None:
        _take(values, sources.from_file(file))
    _take(values, sources.from_environment(env))
    _take(values, sources.from_flags(flags))
    config: Config = _built(values)
    _check(config)
    return config


def load_bucket(bucket: str, env: Mapping[str, str]) -> S3Section:
    """Read how to reach a bucket from the KAFSCALE_S3_* variables alone. Raises ConfigError.

    For programs that are told the bucket and its namespace otherwise, and are no broker.
    """
    ours = {name: raw for name, raw in env.items() if name.startswith(sources.S3_VARIABLES)}
    ours = {name: raw for name, raw in ours.items() if name not in sources.OF_THE_BROKER}
    values: dict[str, Any] = {}
    _take(values, sources.from_environment(ours))
    s3 = _built({**values, "s3.bucket": bucket}).s3
    _check_s3(s3)
    return s3


def _built(values: dict[str, Any]) -> Config:
    if values.get("s3.endpoint"):
        # Servers other than AWS rarely have a host name per bucket.
        values.setdefault("s3.pathStyle", True)
    config: Config = _build(Config, values, "")
    return config


def _fields(kind: type[Section], prefix: str = "") -> Iterator[tuple[str, Any, object]]:
    """Yield key, type and default of every single setting."""
    for field in msgspec.structs.fields(kind):
        key = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, Section):
            yield from _fields(field.type, f"{key}.")
        else:
            default = field.default
            yield key, field.type, [] if default is msgspec.NODEFAULT else default


# Every setting there is: its type and its default.
KEYS: Final[dict[str, tuple[Any, object]]] = {
    key: (kind, default) for key, kind, default in _fields(Config)
}
_SECTIONS: Final = {key.rpartition(".")[0] for key in KEYS} - {""}
_SECRETS: Final = {"s3.accessKey", "s3.secretKey", "s3.sessionToken", "etcd.password"}


def _take(values: dict[str, Any], given: Iterable[Given]) -> None:
    for key, name, raw in given:
        if key in _SECTIONS:
            if raw is None:  # `broker:` with nothing under it
                continue
            raise ConfigError(f"{name}: expected settings under it, found {raw!r}")
        if key not in KEYS:
            raise sources.unknown_key(name, KEYS)
        kind, default = KEYS[key]
        if raw is None or (raw == "" and default is None):  # "" reads as "not set"
            values.pop(key, None)
            continue
        try:
            values[key] = read_value(kind, raw)
        except ValueError as bad:
            found = "something else" if key in _SECRETS else repr(raw)
            raise ConfigError(f"{name}: {bad}, found {found}") from bad


def _build(kind: type[Section], values: Mapping[str, Any], prefix: str) -> Any:
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        key = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, Section):
            given[field.name] = _build(field.type, values, f"{key}.")
        elif key in values:
            given[field.name] = values[key]
    return kind(**given)


# The rules between settings: one function each, each either silent or a ConfigError.


def _check(config: Config) -> None:
    _check_addresses(config)
    _check_s3(config.s3)
    _check_sizes(config)
    if not _NAMESPACE.fullmatch(config.storage.namespace):
        raise ConfigError(
            "storage.namespace: expected letters, digits, '.', '_', '-' in parts split by '/', "
            f"found {config.storage.namespace!r}"
        )
    _check_etcd(config.etcd)
    try:
        config.layout_rules.check_limits(
            config.topics.max_partitions, config.topics.max_virtual_partitions
        )
    except InvalidMapping as problem:
        raise ConfigError(f"mapping: {problem}") from problem


_NAMESPACE: Final = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


def _check_addresses(config: Config) -> None:
    broker = config.broker
    if not is_loopback(broker.host) and not broker.allow_insecure_bind:
        raise ConfigError(
            f"broker.host: {broker.host} is reachable from other machines and there is no "
            "authentication yet; set broker.allowInsecureBind (--allow-insecure-bind) to allow it"
        )
    told = broker.advertised_host or broker.host
    if is_unspecified(told) and not config.listeners and not config.advertised_listeners:
        name = "advertisedHost" if broker.advertised_host else "host"
        raise ConfigError(
            f"broker.{name}: clients cannot connect to {told}; "
            "set broker.advertisedHost (--advertised-host) to a name or address that they can reach"
        )
    if config.listeners:
        _check_one_form(broker)
    try:
        listeners = config.all_listeners
        check_listeners(listeners, allow_insecure_bind=broker.allow_insecure_bind)
    except ListenerConflict as problem:
        raise ConfigError(str(problem)) from problem
    for listener in listeners:
        if listener.port and listener.port == broker.metrics_port:
            other = f"listener {listener.name}" if config.listeners else "broker.port"
            raise ConfigError(
                f"broker.metricsPort: expected another port than {other}, found {listener.port}"
            )


def _check_one_form(broker: BrokerSection) -> None:
    """With `listeners`, the settings of the one listener that there is without have no meaning."""
    usual = BrokerSection()
    for key, given, default in (
        ("port", broker.port, usual.port),
        ("advertisedHost", broker.advertised_host, usual.advertised_host),
        ("advertisedPort", broker.advertised_port, usual.advertised_port),
    ):
        if given != default:
            raise ConfigError(f"broker.{key}: has no meaning beside listeners; say it there")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _check_s3(s3: S3Section) -> None:
    _check_bucket(s3)
    if s3.kms_key_id and s3.server_side_encryption != "aws:kms":
        raise ConfigError("s3.serverSideEncryption: expected aws:kms beside s3.kmsKeyId")
    if s3.part_size < _SMALLEST_PART_BYTES:
        raise ConfigError(f"s3.partSize: expected at least 5Mi, found {s3.part_size}")
    if bool(s3.access_key) != bool(s3.secret_key):
        missing, present = (
            ("secretKey", "accessKey") if s3.access_key else ("accessKey", "secretKey")
        )
        raise ConfigError(f"s3.{missing}: expected beside s3.{present}, found none")
    if s3.session_token and not s3.access_key:
        raise ConfigError("s3.accessKey: expected beside s3.sessionToken, found none")
    if s3.endpoint and not s3.endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"s3.endpoint: expected http://... or https://..., found {s3.endpoint!r}")
    host = urlsplit(s3.endpoint or "").hostname
    if host and _is_address(host) and not s3.path_style:
        raise ConfigError(
            f"s3.pathStyle: expected true, since {host} cannot have a bucket's name before it"
        )


_SMALLEST_PART_BYTES: Final = 5 << 20  # S3 takes no smaller ones
_SCHEMES: Final = ("s3", "gs", "az")


def _check_bucket(s3: S3Section) -> None:
    scheme, _, name = s3.url.partition("://")
    if s3.bucket and (scheme not in _SCHEMES or not name or "/" in name):
        raise ConfigError(
            f"s3.bucket: expected a name, s3://name, gs://name or az://name, found {s3.bucket!r}"
        )
    only_s3 = {
        "accessKey": s3.access_key,
        "serverSideEncryption": s3.server_side_encryption,
    }
    for key, value in only_s3.items():
        if value and scheme != "s3":
            raise ConfigError(f"s3.{key}: has no meaning for {s3.bucket}")


_ETCD_ENDPOINT: Final = re.compile(r"(https?://)?([^\s/:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?")


_SHORTEST_LEASE_S: Final = 2.0  # etcd counts in seconds, and a pause is no death


def _check_etcd(etcd: EtcdSection) -> None:
    for endpoint in etcd.endpoints:
        if not _ETCD_ENDPOINT.fullmatch(endpoint):
            raise ConfigError(
                f"etcd.endpoints: expected host:port, http://... or https://..., found {endpoint!r}"
            )
        if etcd.is_encrypted() and endpoint.startswith("http://"):
            raise ConfigError(f"etcd.endpoints: expected https:// as TLS is on, found {endpoint!r}")
    if bool(etcd.username) != bool(etcd.password):
        missing, present = ("password", "username") if etcd.username else ("username", "password")
        raise ConfigError(f"etcd.{missing}: expected beside etcd.{present}, found none")
    if etcd.lease_ttl < _SHORTEST_LEASE_S:
        raise ConfigError(f"etcd.leaseTtl: expected 2s or longer, found {etcd.lease_ttl:g}s")
    tls = etcd.tls
    if bool(tls.cert_file) != bool(tls.key_file):
        missing, present = ("keyFile", "certFile") if tls.cert_file else ("certFile", "keyFile")
        raise ConfigError(f"etcd.tls.{missing}: expected beside etcd.tls.{present}, found none")
    if (tls.ca_file or tls.cert_file) and etcd.endpoints and not etcd.is_encrypted():
        raise ConfigError("etcd.tls.enabled: expected true, since certificates are given")


_SHORTEST_GRACE_S: Final = 1.0  # readers must have had time to look anew


def _check_sizes(config: Config) -> None:
    if config.grace_period_s < _SHORTEST_GRACE_S:
        raise ConfigError(
            f"storage.gracePeriod: expected 1s or longer, found {config.grace_period_s:g}s"
        )
    topics, request_bytes = config.topics, config.network.max_request_size
    if config.storage.segment_bytes >= 1 << 31:
        # An index entry holds a position in 31 bits.
        raise ConfigError(
            f"storage.segmentBytes: expected less than 2Gi, found {config.storage.segment_bytes}"
        )
    shortest, longest = (
        config.consumer.min_session_timeout_ms,
        config.consumer.max_session_timeout_ms,
    )
    if shortest > longest:
        raise ConfigError(
            f"consumer.minSessionTimeoutMs: expected at most consumer.maxSessionTimeoutMs "
            f"({longest}), found {shortest}"
        )
    for name, size in (
        ("socketSendBuffer", config.network.socket_send_buffer),
        ("socketReceiveBuffer", config.network.socket_receive_buffer),
    ):
        if size is not None and size > MAX_INT32:
            raise ConfigError(f"network.{name}: expected less than 2Gi, found {size}")
    if topics.default_partitions > topics.max_partitions:
        raise ConfigError(
            f"topics.defaultPartitions: expected at most topics.maxPartitions "
            f"({topics.max_partitions}), found {topics.default_partitions}"
        )
    if topics.max_message_bytes > request_bytes:
        raise ConfigError(
            f"topics.maxMessageBytes: expected at most network.maxRequestSize "
            f"({request_bytes}), found {topics.max_message_bytes}"
        )
