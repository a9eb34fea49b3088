"""Everything that was read of one cluster before a plan is made."""

from collections.abc import Mapping

from msgspec import Struct, field

from kafscale.operator.kinds.seen import KubeJob, Pod, Service, StatefulSet


class SeenBroker(Struct, frozen=True, kw_only=True):
    """What a broker's own page says."""

    reasons: tuple[str, ...] = ()  # why it is not ready
    generation: int = 0
    logs_stopped: int = 0
    is_store_unavailable: bool = False
    connections: int = 0


class SnapshotFacts(Struct, frozen=True, kw_only=True):
    """How the jobs that make snapshots went."""

    last_success_s: float | None = None  # Unix time
    failure: str = ""  # of the latest job, in its own words; empty if it went well
    reason: str = ""  # of that failure, in one word


class SeenCluster(Struct, frozen=True, kw_only=True):
    """The objects of one cluster, and what its brokers say."""

    brokers: StatefulSet | None = None
    pods: tuple[Pod, ...] = ()
    etcd: StatefulSet | None = None
    etcd_pods: tuple[Pod, ...] = ()
    services: Mapping[str, Service] = field(default_factory=dict)
    jobs: Mapping[str, KubeJob] = field(default_factory=dict)
    facts: Mapping[str, SeenBroker] = field(default_factory=dict)  # by the name of the pod
    snapshots: SnapshotFacts = SnapshotFacts()
    restore_failure: str = ""  # the last words of a restore's job that was given up
    topic_count: int | None = None
    config_problem: str | None = None  # what a broker would say about its settings
    activator_ready: bool = False
    has_autoscaler: bool = False
    has_budget: bool = False
    has_snapshots: bool = False
    has_activator: bool = False
    has_policy: bool = False  # of the brokers' network
