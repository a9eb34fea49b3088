"""One step that the router takes for every request: take out what the client may not do.

Here: that step, and the bits of what a client may do that some answers show. The step comes after
a request is read and before anything is prepared for it. A request that is denied does nothing.
Next door: who decides (model/security/access.py), what each API asks for (REQUIREMENTS in apis/),
how denied requests are answered (requirements.py, api_requirements.py).
"""

from typing import Final

from kafscale.access.acls import OPERATIONS_ON
from kafscale.gateways.kafka.calls.call import Call, Requirement
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, ResourceType
from kafscale.wire.kafka.schema import Message

NOT_ASKED: Final = -0x80000000

_CREATE, _DESCRIBE = AccessOperation.CREATE, AccessOperation.DESCRIBE
_TOPIC, _CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


# -- what a client may do, where an answer shows it -----------------------------------------------


def authorized_operations(call: Call, kind: ResourceType, name: str, *, asked: bool) -> int:
    """What the client may do to a resource, as the bits of Kafka's operations."""
    if not asked:
        return NOT_ASKED
    return sum(1 << one for one in OPERATIONS_ON[kind] if call.allows(one, kind, name))


def operations_on_cluster(call: Call, *, asked: bool) -> int:
    """The same for the cluster; a client that may not describe it is shown no operations."""
    if asked and not call.allows(_DESCRIBE, _CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(call, _CLUSTER, CLUSTER_NAME, asked=asked)


def may_describe(call: Call, name: str) -> bool:
    """Whether the client may know of a topic."""
    return call.context.authorizer.allows_all or call.allows(_DESCRIBE, _TOPIC, name)


def may_create(call: Call, name: str) -> bool:
    """Whether the client may create a topic of this name, by request or by asking for it."""
    anywhere = call.allows(_CREATE, _CLUSTER, CLUSTER_NAME)
    return anywhere or call.allows(_CREATE, _TOPIC, name)


def authorize(requirements: tuple[Requirement, ...], call: Call) -> Message | None:
    """Take out of a request what its client may not do; gives the answer if nothing is left of it.

    Rows that were taken out are answered beside what the handler answers.
    """
    if call.context.authorizer.allows_all:
        return None
    for requirement in requirements:
        refusal = requirement.check(call)
        if refusal is not None:
            return refusal
    return None
