"""What all objects of Kubernetes have: metadata, owners, conditions."""

from typing import Annotated

from msgspec import Meta, Struct, field


class OwnerReference(Struct, frozen=True, rename="camel"):
    """The object that another one belongs to."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Metadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of an object's metadata that decisions need."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: list[OwnerReference] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


class Condition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that is so or not, and since when."""

    type: Annotated[str, Meta(description="What is judged.")]
    status: Annotated[str, Meta(description="`True`, `False` or `Unknown`.")]
    reason: Annotated[str, Meta(description="Why, in one word for programs.")] = ""
    message: Annotated[str, Meta(description="Why, in a sentence for people.")] = ""
    last_transition_time: Annotated[str, Meta(description="Since when.")] = ""
    observed_generation: Annotated[
        int, Meta(description="The generation of the spec that was judged.")
    ] = 0
