"""KafscaleUser: a user of a cluster who logs in by SCRAM, and its access control list.

Next door: what is done about it (planning/users.py).
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from kafscale.operator.kinds.fields import Name
from kafscale.operator.kinds.metadata import Condition, Metadata

AclOperation = Literal[
    "All",
    "Read",
    "Write",
    "Create",
    "Delete",
    "Alter",
    "Describe",
    "DescribeConfigs",
    "AlterConfigs",
    "ClusterAction",
    "IdempotentWrite",
]


class _Fields(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A group of fields."""


class UserAcl(_Fields, frozen=True, kw_only=True):
    """Operations on resources of one name or prefix."""

    resource: Annotated[
        Literal["Topic", "Group", "TransactionalId", "Cluster"],
        Meta(description="What it is about."),
    ]
    name: Annotated[
        str,
        Meta(
            max_length=249,
            description="Its name; `*` is all of them. The cluster needs none.",
        ),
    ] = "*"
    pattern: Annotated[
        Literal["Literal", "Prefixed"],
        Meta(description="Whether the name is whole or a prefix of names."),
    ] = "Literal"
    operations: Annotated[
        list[AclOperation], Meta(min_length=1, max_length=16, description="What may be done to it.")
    ]
    permission: Annotated[
        Literal["Allow", "Deny"], Meta(description="What denies beats all that allows.")
    ] = "Allow"
    host: Annotated[
        str, Meta(max_length=64, description="The client's address; `*` is every one.")
    ] = "*"


class UserObjectSpec(_Fields, frozen=True, kw_only=True):
    """What is wanted."""

    cluster_ref: Annotated[
        str,
        Meta(min_length=1, max_length=253, description="The KafscaleCluster, in this namespace."),
    ]
    user_name: Annotated[
        Name | None,
        Meta(
            description="The name to log in with, where it is no name for Kubernetes. "
            "Not set: `metadata.name`.",
        ),
    ] = None
    secret_name: Annotated[
        Name | None,
        Meta(
            description="The Secret that the operator makes, with `username`, `password` and "
            "`sasl.jaas.config`. Another name asks for another password. Not set: "
            "`metadata.name`.",
        ),
    ] = None
    acls: Annotated[
        list[UserAcl],
        Meta(max_length=128, description="Everything that the user may do: other rights go."),
    ] = field(default_factory=list)
    deletion_policy: Annotated[
        Literal["Delete", "Retain"],
        Meta(description="Whether the login and its rights go when this object is deleted."),
    ] = "Delete"


class UserObjectStatus(_Fields, frozen=True, kw_only=True):
    """What is there."""

    phase: Annotated[
        str, Meta(description="A summary for people: `Pending`, `Ready`, `Refused`.")
    ] = ""
    secret_name: Annotated[
        str, Meta(description="The Secret with the password that brokers know.")
    ] = ""
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that this status is about.")
    ] = 0
    conditions: Annotated[
        list[Condition], Meta(description="What is well and what is not, with reasons.")
    ] = field(default_factory=list)


class KafscaleUser(Struct, frozen=True, kw_only=True, rename="camel"):
    """A user of a cluster."""

    metadata: Metadata
    spec: UserObjectSpec
    status: UserObjectStatus = UserObjectStatus()

    @property
    def user(self) -> str:
        """The name that Kafka clients log in with."""
        return self.spec.user_name or self.metadata.name

    @property
    def secret(self) -> str:
        """The name of the Secret with the password."""
        return self.spec.secret_name or self.metadata.name
