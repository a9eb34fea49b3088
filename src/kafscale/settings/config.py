"""The configuration of a broker: all sections, and what follows from them.

Here: Config. Next door: the settings (sections.py), loading them (loading.py), the rules between
them (rules.py).
Never here: opening what is configured (stores.py).
"""

from pathlib import Path
from typing import Literal

import msgspec

from kafscale.model.endpoints import PLAINTEXT
from kafscale.model.topics import TopicDefaults
from kafscale.settings.listeners import (
    AdvertisedListeners,
    ListenerConflict,
    Listeners,
    ListenerSetting,
    with_advertised,
)
from kafscale.settings.sections import (
    METADATA_FILE,
    OBJECTS_FOLDER,
    AuditSection,
    AuthorizationSection,
    BrokerSection,
    CacheSection,
    CompressionSection,
    ConsoleSection,
    ConsumerSection,
    EtcdSection,
    FluvioSection,
    LoggingSection,
    MappingSection,
    NetworkSection,
    PricesSection,
    PulsarSection,
    QuotaSection,
    S3Section,
    Section,
    StorageSection,
    TopicsSection,
    TransactionsSection,
)
from kafscale.settings.security import SaslSection, TlsSection
from kafscale.virtual.rules import LayoutRules, PartitionLayout


class Config(Section, frozen=True):
    """All settings."""

    broker: BrokerSection = BrokerSection()
    listeners: Listeners | None = None
    advertised_listeners: AdvertisedListeners | None = None
    network: NetworkSection = NetworkSection()
    tls: TlsSection = TlsSection()
    sasl: SaslSection = SaslSection()
    s3: S3Section = S3Section()
    use_memory_s3: bool = False
    etcd: EtcdSection = EtcdSection()
    storage: StorageSection = StorageSection()
    cache: CacheSection = CacheSection()
    consumer: ConsumerSection = ConsumerSection()
    transactions: TransactionsSection = TransactionsSection()
    compression: CompressionSection = CompressionSection()
    topics: TopicsSection = TopicsSection()
    mapping: MappingSection = MappingSection()
    authorization: AuthorizationSection = AuthorizationSection()
    fluvio: FluvioSection = FluvioSection()
    logging: LoggingSection = LoggingSection()
    pulsar: PulsarSection = PulsarSection()
    quota: QuotaSection = QuotaSection()
    audit: AuditSection = AuditSection()
    prices: PricesSection = PricesSection()
    console: ConsoleSection = ConsoleSection()

    @property
    def store_kind(self) -> Literal["memory", "s3", "files"]:
        """Which object store the settings choose."""
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
        """The name that an allocated broker id is kept under; "" if it changes with every start.

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
    def pulsar_listener(self) -> ListenerSetting:
        """The listener of Kafka's that the Pulsar door is like. Raises ListenerConflict."""
        rows, name = self.all_listeners, self.pulsar.listener
        if name is None:
            return rows[0]
        for row in rows:
            if row.name == name.upper():
                return row
        raise ListenerConflict(f"pulsar.listener: there is no listener {name}")

    @property
    def flush_interval_ms(self) -> int:
        """Without a setting: a PUT to a bucket costs money and a round trip; to a file, little."""
        if self.storage.flush_interval_ms is not None:
            return self.storage.flush_interval_ms
        return 500 if self.store_kind == "s3" else 0

    @property
    def grace_period_s(self) -> float:
        """Without a setting: a bucket has far readers; files have one machine and few inodes."""
        if self.storage.grace_period is not None:
            return self.storage.grace_period
        return 600.0 if self.store_kind == "s3" else 60.0

    @property
    def segment_cache_bytes(self) -> int:
        """Without a setting: the system caches files already; a bucket is far away."""
        if self.cache.segment_cache_size is not None:
            return self.cache.segment_cache_size
        return (512 if self.store_kind == "s3" else 64) << 20

    @property
    def without_effect(self) -> list[str]:
        """Settings that were given and change nothing.

        Every member of a group chooses these times for itself. Configurations of other brokers
        name them, so they are accepted.
        """
        fields = ("rebalance_timeout_ms", "max_poll_interval_ms")
        names = {field.name: field.encode_name for field in msgspec.structs.fields(ConsumerSection)}
        return [
            f"consumer.{names[field]}"
            for field in fields
            if getattr(self.consumer, field) is not None
        ]

    @property
    def placement(self) -> str:
        """The placement of topics without one of their own: by namespace, else the cluster's."""
        storage = self.storage
        return storage.placement_by_namespace.get(storage.namespace, storage.placement)

    @property
    def topic_defaults(self) -> TopicDefaults:
        """The settings of topics that have none of their own."""
        return TopicDefaults(
            retention_ms=self.topics.retention_ms,
            retention_bytes=self.topics.retention_bytes,
            segment_bytes=self.storage.segment_bytes,
            max_message_bytes=self.topics.max_message_bytes,
            index_interval_bytes=self.storage.index_interval_bytes,
            compression_type=self.compression.type,
            acks1=self.storage.acks1,
            deduplication=self.pulsar.deduplication,
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
