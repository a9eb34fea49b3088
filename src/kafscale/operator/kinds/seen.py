"""What decisions read of other objects: a few fields of StatefulSets, Pods, Jobs and Services.

Unknown fields are ignored, so a newer API server does no harm.
"""

from msgspec import Struct, field

from kafscale.operator.kinds.metadata import Metadata


class RollingUpdate(Struct, frozen=True, rename="camel"):
    """How far a roll may go."""

    partition: int = 0


class UpdateStrategy(Struct, frozen=True, rename="camel"):
    """How pods are replaced."""

    rolling_update: RollingUpdate | None = None


class StatefulSetSpec(Struct, frozen=True, rename="camel"):
    """What was applied."""

    replicas: int = 1
    update_strategy: UpdateStrategy = UpdateStrategy()

    @property
    def partition(self) -> int:
        """Pods with a lower number than this keep their revision."""
        rolling = self.update_strategy.rolling_update
        return rolling.partition if rolling else 0


class StatefulSetStatus(Struct, frozen=True, rename="camel"):
    """What its controller has seen."""

    replicas: int = 0
    ready_replicas: int = 0
    observed_generation: int = 0
    update_revision: str = ""


class StatefulSet(Struct, frozen=True, kw_only=True, rename="camel"):
    """A StatefulSet."""

    metadata: Metadata
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def is_observed(self) -> bool:
        """Whether its status is about what was applied last."""
        return self.status.observed_generation >= self.metadata.generation


class ContainerWaiting(Struct, frozen=True):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class Terminated(Struct, frozen=True, rename="camel"):
    """How a container ended."""

    reason: str = ""
    message: str = ""
    exit_code: int = 0
    finished_at: str | None = None


class ContainerState(Struct, frozen=True):
    """What a container does; one of these."""

    waiting: ContainerWaiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    """One container of a pod."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PartCondition(Struct, frozen=True, kw_only=True):
    """A condition of another object. Its times are not read: the server writes null for some."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PodStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the kubelet says."""

    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    conditions: list[PartCondition] = field(default_factory=list)
    container_statuses: list[ContainerStatus] = field(default_factory=list)
    init_container_statuses: list[ContainerStatus] = field(default_factory=list)


class PodSpec(Struct, frozen=True, rename="camel"):
    """Where it runs."""

    node_name: str = ""


class Pod(Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ordinal(self) -> int:
        """The number at the end of its name."""
        number = self.metadata.name.rpartition("-")[2]
        return int(number) if number.isdigit() else -1

    @property
    def revision(self) -> str:
        """The revision of the template it was made from."""
        return self.metadata.labels.get("controller-revision-hash", "")

    @property
    def is_ready(self) -> bool:
        """Whether clients are sent to it."""
        return self.metadata.deletion_timestamp is None and self._says("Ready") == "True"

    @property
    def unschedulable(self) -> str:
        """Why no node takes it; empty if one does."""
        for one in self.status.conditions:
            if one.type == "PodScheduled" and one.status == "False":
                return one.message or one.reason
        return ""

    def _says(self, condition: str) -> str:
        return next((c.status for c in self.status.conditions if c.type == condition), "")


class KubeNode(Struct, frozen=True, kw_only=True, rename="camel"):
    """A node, as far as it is alive."""

    metadata: Metadata
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet was heard of lately."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class JobStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a job went."""

    succeeded: int = 0
    failed: int = 0
    active: int = 0
    completion_time: str | None = None
    conditions: list[PartCondition] = field(default_factory=list)

    @property
    def is_given_up(self) -> bool:
        """Whether it failed as often as it may."""
        return any(one.type == "Failed" and one.status == "True" for one in self.conditions)


class KubeJob(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job."""

    metadata: Metadata
    status: JobStatus = JobStatus()


class LoadBalancerAddress(Struct, frozen=True):
    """Where a load balancer listens."""

    ip: str = ""
    hostname: str = ""


class LoadBalancer(Struct, frozen=True):
    """What the cloud gave."""

    ingress: list[LoadBalancerAddress] = field(default_factory=list)


class ServiceStatus(Struct, frozen=True, rename="camel"):
    """What the cloud says."""

    load_balancer: LoadBalancer = LoadBalancer()


class ServicePort(Struct, frozen=True, rename="camel"):
    """A port of a Service."""

    name: str = ""
    port: int = 0
    node_port: int = 0


class ServiceSpec(Struct, frozen=True, rename="camel"):
    """What was applied, and what the server chose."""

    ports: list[ServicePort] = field(default_factory=list)


class Service(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Service."""

    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()
