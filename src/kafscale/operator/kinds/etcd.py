"""The fields of a KafscaleCluster that are about its etcd: where it is, snapshots, restores.

Next door: the rest of the cluster's fields (cluster.py).
"""

from typing import Annotated, Literal

from msgspec import Meta, field

from kafscale.operator.kinds.fields import Name, Quantity, S3Bucket, SpecFields, Text


class EtcdStorage(SpecFields, frozen=True, kw_only=True):
    """The volumes of the managed etcd."""

    size: Annotated[Quantity, Meta(description="The size of one volume.")] = "10Gi"
    storage_class_name: Annotated[
        Name | None, Meta(description="The class of the volumes. Not set: the default class.")
    ] = None


class EtcdSnapshots(SpecFields, frozen=True, kw_only=True):
    """Scheduled snapshots of the managed etcd in a bucket of their own."""

    schedule: Annotated[Text, Meta(description="When, in the form of cron.")] = "0 * * * *"
    retention: Annotated[int, Meta(ge=1, le=10000, description="How many snapshots are kept.")] = 48
    prefix: Annotated[Text, Meta(description="Before the key of every snapshot.")] = "etcd"
    s3: Annotated[S3Bucket, Meta(description="The bucket of the snapshots, and its credentials.")]


class Restore(SpecFields, frozen=True, kw_only=True):
    """Metadata is rebuilt, once for each new value of `request`."""

    source: Annotated[
        Literal["Bucket", "Snapshot"],
        Meta(
            description="`Bucket`: an empty etcd is filled from the topics' own bucket, as of a "
            "minute before the loss. `Snapshot`: what etcd holds of this cluster is replaced by a "
            "snapshot of `etcd.snapshot`, and then brought up to the bucket."
        ),
    ] = field(default="Bucket", name="from")
    key: Annotated[
        Text | None,
        Meta(description="The key of the snapshot. Not set: the newest one."),
    ] = None

    request: Annotated[
        Text,
        Meta(min_length=1, description="Any text. Another text asks for another restore."),
    ]


class Etcd(SpecFields, frozen=True, kw_only=True):
    """Where the fleet keeps its metadata."""

    endpoints: Annotated[
        list[Text],
        Meta(
            max_length=64,
            description="Members of an etcd that you run. Empty: the operator's setting "
            "`KAFSCALE_OPERATOR_ETCD_ENDPOINTS`, else an etcd of three members made for this "
            "cluster.",
        ),
    ] = field(default_factory=list)
    use_kube_etcd: Annotated[
        bool,
        Meta(description="Refused: brokers do not write into the etcd of Kubernetes itself."),
    ] = False
    prefix: Annotated[
        Text | None,
        Meta(
            description="Before every key. Not set: empty for `endpoints`, and namespace and name "
            "of the cluster for an etcd of the operator's setting, which clusters share."
        ),
    ] = None
    image: Annotated[Text | None, Meta(description="The image of the managed etcd.")] = None
    storage: Annotated[EtcdStorage, Meta(description="The volumes of the managed etcd.")] = (
        EtcdStorage()
    )
    snapshot: Annotated[
        EtcdSnapshots | None,
        Meta(description="Snapshots of the managed etcd. Not set: none are made."),
    ] = None
    restore: Annotated[
        Restore | None,
        Meta(
            description="Stops the brokers, rebuilds the metadata from the topics' own bucket or "
            "from a snapshot, and starts the brokers again."
        ),
    ] = None


class EtcdStatus(SpecFields, frozen=True, kw_only=True):
    """The etcd that brokers use."""

    source: Annotated[str, Meta(description="`Spec`, `Operator` or `Managed`.")] = ""
    endpoints: Annotated[list[str], Meta(description="Its members.")] = field(default_factory=list)
    prefix: Annotated[str, Meta(description="Before every key.")] = ""
    last_snapshot: Annotated[
        str, Meta(description="When the last snapshot was made, with `etcd.snapshot`.")
    ] = ""
