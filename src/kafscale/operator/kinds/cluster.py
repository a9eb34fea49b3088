"""KafscaleCluster: a fleet of brokers on a bucket, as people write it.

Here: every field with its type, default, bounds and meaning. The schema of the resource and its
page in the documents are made from these structs, so a field exists once.
Next door: the fields of its etcd (etcd.py), rules between fields (rules.py), the schema (crds.py),
what is read of other objects (seen.py).
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from kafscale.operator.kinds.etcd import Etcd, EtcdStatus
from kafscale.operator.kinds.fields import (
    Duration,
    FreeObject,
    Name,
    Quantity,
    S3Bucket,
    SpecFields,
    Text,
)
from kafscale.operator.kinds.metadata import Condition, Metadata

GROUP: Final = "kafscale.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
MOST_BROKERS: Final = 1000


class ResourceRequests(SpecFields, frozen=True, kw_only=True):
    """What a broker is sure to get."""

    cpu: Annotated[Quantity, Meta(description="Processor time.")] = "500m"
    memory: Annotated[Quantity, Meta(description="Memory.")] = "1Gi"


class ResourceLimits(SpecFields, frozen=True, kw_only=True):
    """What a broker may use at most."""

    cpu: Annotated[Quantity, Meta(description="Processor time.")] = "2"
    memory: Annotated[
        Quantity,
        Meta(description="Memory. It must cover `config.cacheSize` and 1Gi beside it."),
    ] = "4Gi"


class Resources(SpecFields, frozen=True, kw_only=True):
    """Processor time and memory of one broker."""

    requests: Annotated[ResourceRequests, Meta(description="What a broker is sure to get.")] = (
        ResourceRequests()
    )
    limits: Annotated[ResourceLimits, Meta(description="What a broker may use at most.")] = (
        ResourceLimits()
    )


class Autoscaling(SpecFields, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler for the brokers."""

    min_replicas: Annotated[
        int | None,
        Meta(description="Never fewer brokers than this. Not set: `brokers.replicas`."),
    ] = None
    max_replicas: Annotated[
        int, Meta(ge=1, le=MOST_BROKERS, description="Never more brokers than this.")
    ] = 20
    cpu: Annotated[
        int, Meta(ge=1, le=100, description="Mean use of the requested processor time, in percent.")
    ] = 70
    memory: Annotated[
        int | None,
        Meta(
            description="Mean use of the requested memory, in percent. Caches fill what they may, "
            "so by memory a cluster only ever grows. Not set: memory does not count."
        ),
    ] = None
    produce_requests_per_second: Annotated[
        int | None,
        Meta(
            description="Produce requests per second and broker, by the metric "
            "`kafscale_produce_requests_per_second`. A metrics adapter must serve it. "
            "Not set: requests do not count."
        ),
    ] = None


class External(SpecFields, frozen=True, kw_only=True):
    """How clients outside the Kubernetes cluster reach the brokers."""

    type: Annotated[
        Literal["NodePort", "LoadBalancer"],
        Meta(description="The type of the Service that each broker gets."),
    ]
    host_template: Annotated[
        Text | None,
        Meta(
            description="The host that clients are told, with `{ordinal}` for the broker's number: "
            "`b{ordinal}.kafka.example.org`. Not set: the address of the load balancer. "
            "NodePort needs it."
        ),
    ] = None
    annotations: Annotated[dict[str, str], Meta(description="Annotations of these Services.")] = (
        field(default_factory=dict)
    )


class ServiceAccount(SpecFields, frozen=True, kw_only=True):
    """The account that brokers run under. It has no rights in Kubernetes."""

    annotations: Annotated[
        dict[str, str],
        Meta(description="Annotations, such as the identity that the cloud gives the brokers."),
    ] = field(default_factory=dict)


class PodTemplate(SpecFields, frozen=True, kw_only=True):
    """What is added to the brokers' pods, or put in the place of the operator's choice."""

    labels: Annotated[dict[str, str], Meta(description="More labels.")] = field(
        default_factory=dict
    )
    annotations: Annotated[dict[str, str], Meta(description="More annotations.")] = field(
        default_factory=dict
    )
    node_selector: Annotated[dict[str, str], Meta(description="Labels that a node must have.")] = (
        field(default_factory=dict)
    )
    tolerations: Annotated[
        list[FreeObject], Meta(description="Taints of nodes that brokers tolerate.")
    ] = field(default_factory=list)
    affinity: Annotated[
        FreeObject | None, Meta(description="Which nodes and neighbours pods prefer or need.")
    ] = None
    topology_spread_constraints: Annotated[
        list[FreeObject] | None,
        Meta(description="Not set: brokers are spread over zones and nodes as well as it goes."),
    ] = None
    priority_class_name: Annotated[Name | None, Meta(description="The priority of the pods.")] = (
        None
    )
    image_pull_secrets: Annotated[
        list[str], Meta(description="Secrets with which images are pulled.")
    ] = field(default_factory=list)


class Brokers(SpecFields, frozen=True, kw_only=True):
    """The brokers of the fleet."""

    replicas: Annotated[
        int,
        Meta(ge=1, le=MOST_BROKERS, description="How many brokers. With `autoscaling`: at first."),
    ] = 3
    image: Annotated[
        Text | None, Meta(description="The image. Not set: the operator's own release.")
    ] = None
    resources: Annotated[
        Resources, Meta(description="Processor time and memory of one broker.")
    ] = Resources()
    autoscaling: Annotated[
        Autoscaling | None,
        Meta(description="Adds and removes brokers by load. Not set: `replicas` counts."),
    ] = None
    idle_after: Annotated[
        Duration | None,
        Meta(
            description="After so long without a client, all brokers are stopped; the next client "
            "that connects to the bootstrap address wakes them. Not set: they run on."
        ),
    ] = None
    external: Annotated[
        External | None, Meta(description="Access from outside. Not set: there is none.")
    ] = None
    access_from: Annotated[
        list[FreeObject] | None,
        Meta(
            description="Who may connect to port 9092, as peers of a NetworkPolicy, besides pods "
            "of this cluster. The operator must be among them to manage topics and users. "
            "Not set: every pod."
        ),
    ] = None
    service_account: Annotated[
        ServiceAccount, Meta(description="The account that brokers run under.")
    ] = ServiceAccount()
    pod_template: Annotated[PodTemplate, Meta(description="Additions to the brokers' pods.")] = (
        PodTemplate()
    )


class BrokersConfig(SpecFields, frozen=True, kw_only=True):
    """Settings of the brokers."""

    segment_bytes: Annotated[
        int, Meta(ge=1, description="Objects are rolled up to about this size.")
    ] = 104857600
    flush_interval_ms: Annotated[
        int, Meta(ge=0, description="A record waits at most so long before it is written.")
    ] = 500
    cache_size: Annotated[
        Quantity, Meta(description="The cache of one broker for records that it reads again.")
    ] = "2Gi"
    broker: Annotated[
        dict[str, str],
        Meta(
            max_length=256,
            description="Any other setting of brokers by its name in the configuration, such as "
            "`topics.autoCreate`. The operator refuses names that brokers do not know.",
        ),
    ] = field(default_factory=dict)


class BrokerCertificate(SpecFields, frozen=True, kw_only=True):
    """The certificate that brokers show, on all listeners."""

    secret_ref: Annotated[
        Name,
        Meta(
            min_length=1,
            description="A Secret of the type `kubernetes.io/tls`, as cert-manager makes it. Its "
            "certificate names `NAME-bootstrap.NAMESPACE.svc` and `*.NAME-brokers.NAMESPACE.svc`.",
        ),
    ]
    authority: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=65536,
            description="The certificate of its authority (PEM). The operator trusts no other.",
        ),
    ]


class Security(SpecFields, frozen=True, kw_only=True):
    """Clients log in by SCRAM, and may do what access control lists allow."""

    tls: Annotated[
        BrokerCertificate | None,
        Meta(description="Encrypts connections of clients. Not set: they are not encrypted."),
    ] = None
    authorization: Annotated[
        bool,
        Meta(description="Whether clients need rights. Not so: those that log in may do all."),
    ] = True
    super_users: Annotated[
        list[Text],
        Meta(max_length=64, description="Who may do everything besides the operator: `User:ann`."),
    ] = field(default_factory=list)


class ClusterObjectSpec(SpecFields, frozen=True, kw_only=True):
    """What is wanted."""

    brokers: Annotated[Brokers, Meta(description="The brokers.")]
    s3: Annotated[S3Bucket, Meta(description="The bucket that holds the topics.")]
    etcd: Annotated[Etcd, Meta(description="Where the fleet keeps its metadata.")] = Etcd()
    config: Annotated[BrokersConfig, Meta(description="Settings of the brokers.")] = BrokersConfig()
    security: Annotated[
        Security | None,
        Meta(description="Logins, rights and encryption. Not set: brokers trust every client."),
    ] = None


class ClusterObjectStatus(SpecFields, frozen=True, kw_only=True):
    """What is there."""

    phase: Annotated[
        str,
        Meta(
            description="A summary for people: `Pending`, `Running`, `Updating`, `Degraded`, "
            "`Stopped` or `Failed`."
        ),
    ] = ""
    broker_count: Annotated[int, Meta(description="Brokers that are ready.")] = 0
    replicas: Annotated[int, Meta(description="Brokers that exist.")] = 0
    topic_count: Annotated[int, Meta(description="Topics that the brokers know.")] = 0
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that this status is about.")
    ] = 0
    selector: Annotated[str, Meta(description="The labels of the brokers' pods.")] = ""
    bootstrap: Annotated[str, Meta(description="The address for clients inside.")] = ""
    external_bootstrap: Annotated[
        str,
        Meta(description="The addresses for clients outside, with `brokers.external`, once known."),
    ] = ""
    broker_image: Annotated[str, Meta(description="The image that brokers run.")] = ""
    restored: Annotated[str, Meta(description="The last restore request that is done.")] = ""
    etcd: Annotated[EtcdStatus, Meta(description="The etcd that brokers use.")] = EtcdStatus()
    conditions: Annotated[
        list[Condition], Meta(description="What is well and what is not, with reasons.")
    ] = field(default_factory=list)


class KafscaleCluster(Struct, frozen=True, kw_only=True, rename="camel"):
    """A fleet of brokers on a bucket."""

    metadata: Metadata
    spec: ClusterObjectSpec
    status: ClusterObjectStatus = ClusterObjectStatus()
