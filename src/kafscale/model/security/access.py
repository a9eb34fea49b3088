"""Who a client is, and what it may do: the nouns that every door shares.

Here: principals, operations and resources, and the port that decides. Operations and resource
types have Kafka's names and numbers.
Next door: the rules (access/), what each request asks for (REQUIREMENTS in gateways/kafka/apis).
Never here: rules. `AllowAll` is the authorizer of a broker without any.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol


class Principal(NamedTuple):
    """Who a client is."""

    kind: str
    name: str

    def __str__(self) -> str:
        """As Kafka writes it."""
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")  # a client that has not said who it is


class AccessOperation(IntEnum):
    """What a client does to a resource. Requests never ask for ALL: only rules name it."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What it is done to."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME: Final = "kafka-cluster"  # the one resource of type CLUSTER


class Authorizer(Protocol):
    """Decides what principals may do, without waiting for anything."""

    @property
    def allows_all(self) -> bool:
        """Whether every question is answered with yes, so that none need be asked."""
        ...

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AccessOperation,
        kind: ResourceType,
        name: str,
    ) -> bool:
        """Whether the principal may do this to the resource of this name from this address."""
        ...

    def allows_any(
        self, principal: Principal, host: str, operation: AccessOperation, kind: ResourceType
    ) -> bool:
        """Whether there can be a resource of this type that the principal may do this to."""
        ...


class AllowAll:
    """Implements Authorizer for a broker without rules."""

    allows_all = True

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AccessOperation,
        kind: ResourceType,
        name: str,
    ) -> bool:
        """Always."""
        return True

    def allows_any(
        self, principal: Principal, host: str, operation: AccessOperation, kind: ResourceType
    ) -> bool:
        """Always."""
        return True
