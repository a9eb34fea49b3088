"""Roles are bundles of bindings: what they allow, and what goes with them."""

from hypothesis import given
from hypothesis import strategies as st

from kafscale.access.acls import AclBinding, PatternType, check_binding
from kafscale.access.decision import AclAuthorizer, AclIndex
from kafscale.access.roles import EVERY, ROLES, GrantedRole, Pattern, list_removable, list_roles
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, Principal, ResourceType

ALICE = Principal("User", "alice")
ORDERS = Pattern(PatternType.PREFIXED, "orders.")
OP, KIND = AccessOperation, ResourceType


def allowed(role: GrantedRole, operation: AccessOperation, kind: ResourceType, name: str) -> bool:
    index = AclIndex()
    for one in role.bindings():
        check_binding(one)
        index.add(one)
    return AclAuthorizer(index).allows(ALICE, "10.0.0.1", operation, kind, name)


def test_a_producer_writes_and_a_consumer_reads_with_its_groups() -> None:
    producer = GrantedRole(ALICE, "producer", ORDERS, None)
    consumer = GrantedRole(ALICE, "consumer", ORDERS, Pattern(PatternType.LITERAL, "g"))
    assert allowed(producer, OP.WRITE, KIND.TOPIC, "orders.eu")
    assert allowed(producer, OP.DESCRIBE, KIND.TOPIC, "orders.eu")
    assert not allowed(producer, OP.READ, KIND.TOPIC, "orders.eu")
    assert not allowed(producer, OP.WRITE, KIND.TOPIC, "bills")
    assert allowed(consumer, OP.READ, KIND.TOPIC, "orders.eu")
    assert allowed(consumer, OP.READ, KIND.GROUP, "g")
    assert not allowed(consumer, OP.READ, KIND.GROUP, "h")
    assert not allowed(consumer, OP.WRITE, KIND.TOPIC, "orders.eu")


def test_an_admin_of_some_topics_is_none_of_the_cluster() -> None:
    some = GrantedRole(ALICE, "admin", ORDERS, EVERY)
    every = GrantedRole(ALICE, "admin", EVERY, EVERY)
    assert allowed(some, OP.CREATE, KIND.TOPIC, "orders.eu")
    assert allowed(some, OP.ALTER_CONFIGS, KIND.TOPIC, "orders.eu")
    assert not allowed(some, OP.ALTER, KIND.CLUSTER, CLUSTER_NAME)
    assert allowed(every, OP.ALTER, KIND.CLUSTER, CLUSTER_NAME)
    assert not allowed(every, OP.READ, KIND.TOPIC, "orders.eu")


patterns = st.sampled_from([EVERY, ORDERS, Pattern(PatternType.LITERAL, "t")])


@st.composite
def granted(draw: st.DrawFn) -> GrantedRole:
    name = draw(st.sampled_from(sorted(ROLES)))
    groups = draw(patterns) if ROLES[name].groups else None
    who = draw(st.sampled_from([ALICE, Principal("User", "bob")]))
    return GrantedRole(who, name, draw(patterns), groups, draw(st.sampled_from(["*", "10.0.0.1"])))


@given(st.lists(granted(), max_size=4), granted())
def test_a_role_that_is_granted_is_listed_and_one_that_is_revoked_is_not(
    others: list[GrantedRole], role: GrantedRole
) -> None:
    bindings: set[AclBinding] = {one for other in (*others, role) for one in other.bindings()}
    assert all(is_held(one, bindings) for one in (*others, role))
    left = bindings - set(list_removable(role, bindings))
    assert not is_held(role, left)
    kept = [one for one in others if one.role != role.role]
    assert all(is_held(one, left) for one in kept), "what other roles need stays"


def is_held(role: GrantedRole, bindings: set[AclBinding]) -> bool:
    return any(
        (one.principal, one.role, one.host) == (role.principal, role.role, role.host)
        and role.topics in one.topics
        and (role.groups is None or role.groups in one.groups)
        for one in list_roles(bindings)
    )
