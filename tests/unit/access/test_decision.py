"""The decision equals Kafka's rules, written down naively, for any set of bindings."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.access import decision
from kafscale.access.acls import EVERYBODY, AclBinding, AclFilter, PatternType, Permission
from kafscale.access.decision import AclAuthorizer, AclIndex, same_host
from kafscale.model.security.access import AccessOperation, Principal, ResourceType

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
OP, KIND = AccessOperation, ResourceType
HOSTS = ("*", "10.0.0.1", "10.0.0.2")

names = st.text("ab*", min_size=1, max_size=4)
kinds = st.sampled_from([KIND.TOPIC, KIND.GROUP])
operations = st.sampled_from(list(OP))
asked_operations = st.sampled_from([one for one in OP if one is not OP.ALL])
bindings = st.builds(
    AclBinding,
    kinds,
    st.sampled_from(PatternType),
    names,
    st.sampled_from([ALICE, BOB, EVERYBODY, Principal("Group", "alice")]),
    st.sampled_from(HOSTS),
    operations,
    st.sampled_from(Permission),
)


def is_about(one: AclBinding, kind: ResourceType, name: str) -> bool:
    if one.kind is not kind:
        return False
    if one.pattern is PatternType.PREFIXED:
        return name.startswith(one.name)
    return one.name in (name, "*")


def concerns(one: AclBinding, principal: Principal, host: str) -> bool:
    return one.principal in (principal, EVERYBODY) and one.host in (host, "*")


IMPLIED = {
    OP.DESCRIBE: (OP.READ, OP.WRITE, OP.DELETE, OP.ALTER),
    OP.DESCRIBE_CONFIGS: (OP.ALTER_CONFIGS,),
}


def naive(
    acls: Sequence[AclBinding],
    principal: Principal,
    host: str,
    operation: AccessOperation,
    kind: ResourceType,
    name: str,
    *,
    without_acl: bool,
) -> bool:
    """Kafka's rules, one sentence at a time."""
    about = [one for one in acls if is_about(one, kind, name)]
    if not about:
        return without_acl
    ours = [one for one in about if concerns(one, principal, host)]
    if any(
        one.permission is Permission.DENY and one.operation in (operation, OP.ALL) for one in ours
    ):
        return False
    return any(
        one.permission is Permission.ALLOW
        and one.operation in (operation, OP.ALL, *IMPLIED.get(operation, ()))
        for one in ours
    )


def authorizer_of(acls: Sequence[AclBinding], *, without_acl: bool = False) -> AclAuthorizer:
    index = AclIndex()
    for one in acls:
        index.add(one)
    return AclAuthorizer(index, allows_without_acl=without_acl)


@given(
    st.lists(bindings, max_size=12),
    st.sets(st.integers(0, 11)),
    st.booleans(),
    st.data(),
)
def test_the_decision_is_that_of_kafkas_rules(
    acls: list[AclBinding], removed: set[int], without_acl: bool, data: st.DataObject
) -> None:
    index = AclIndex()
    authorizer = AclAuthorizer(index, allows_without_acl=without_acl)
    for one in acls:
        index.add(one)
    gone = {acls[at] for at in removed if at < len(acls)}
    for one in gone:
        index.discard(one)
    left = [one for one in acls if one not in gone]
    for _ in range(8):
        asked = data.draw(
            st.tuples(
                st.sampled_from([ALICE, BOB]),
                st.sampled_from(HOSTS[1:]),
                asked_operations,
                kinds,
                names,
            )
        )
        expected = naive(left, *asked, without_acl=without_acl)
        assert authorizer.allows(*asked) == expected
        assert authorizer.allows(*asked) == expected  # out of the cache
    if not left:
        assert not any((*index._literal.values(), *index._prefixed.values()))
        assert not any(index._lengths.values())


@given(st.lists(bindings, max_size=8), asked_operations)
def test_a_resource_that_is_allowed_is_found_by_its_type(
    acls: list[AclBinding], operation: AccessOperation
) -> None:
    """Kafka compares patterns only, so it may say no where a longer name would be allowed."""
    authorizer = authorizer_of(acls)
    some = [one for one in acls if one.kind is KIND.TOPIC]
    literal_yes = any(
        one.pattern is PatternType.LITERAL
        and one.name != "*"
        and naive(acls, ALICE, "10.0.0.1", operation, KIND.TOPIC, one.name, without_acl=False)
        and any(
            other.name == one.name
            and other.pattern is PatternType.LITERAL
            and other.permission is Permission.ALLOW
            and other.operation in (operation, OP.ALL)
            and concerns(other, ALICE, "10.0.0.1")
            for other in some
        )
        for one in some
    )
    if literal_yes:
        assert authorizer.allows_any(ALICE, "10.0.0.1", operation, KIND.TOPIC)


def acl(
    permission: Permission,
    operation: AccessOperation,
    name: str,
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = KIND.TOPIC,
) -> AclBinding:
    return AclBinding(kind, pattern, name, ALICE, "*", operation, permission)


ALLOW, DENY = Permission.ALLOW, Permission.DENY
PREFIXED = PatternType.PREFIXED


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl(ALLOW, OP.WRITE, "t")], True),
        ([acl(ALLOW, OP.ALL, "t")], True),
        ([acl(ALLOW, OP.READ, "t")], False),
        ([acl(ALLOW, OP.WRITE, "t", kind=KIND.GROUP)], False),
        ([acl(ALLOW, OP.WRITE, "t"), acl(DENY, OP.WRITE, "t")], False),
        ([acl(ALLOW, OP.WRITE, "t"), acl(DENY, OP.WRITE, "*")], False),
        ([acl(ALLOW, OP.WRITE, "t"), acl(DENY, OP.ALL, "t", PREFIXED)], False),
        ([acl(ALLOW, OP.WRITE, "*"), acl(DENY, OP.WRITE, "t", PREFIXED)], True),
        ([acl(ALLOW, OP.WRITE, "ab", PREFIXED), acl(DENY, OP.WRITE, "a", PREFIXED)], False),
        ([acl(ALLOW, OP.WRITE, "ab", PREFIXED), acl(DENY, OP.WRITE, "abc", PREFIXED)], True),
        ([acl(ALLOW, OP.WRITE, "ab", PREFIXED), acl(DENY, OP.WRITE, "ab")], True),
    ],
)
def test_who_may_write_to_some_topic_may_be_an_idempotent_producer(
    acls: list[AclBinding], expected: bool
) -> None:
    authorizer = authorizer_of(acls)
    assert authorizer.allows_any(ALICE, "10.0.0.1", OP.WRITE, KIND.TOPIC) is expected
    assert not authorizer.allows_any(BOB, "10.0.0.1", OP.WRITE, KIND.TOPIC)


def test_super_users_may_do_what_is_denied_to_everybody() -> None:
    index = AclIndex()
    index.add(AclBinding(KIND.TOPIC, PatternType.LITERAL, "*", EVERYBODY, "*", OP.ALL, DENY))
    authorizer = AclAuthorizer(index, [BOB])
    assert authorizer.allows(BOB, "10.0.0.1", OP.READ, KIND.TOPIC, "t")
    assert authorizer.allows_any(BOB, "10.0.0.1", OP.WRITE, KIND.TOPIC)
    assert not authorizer.allows(ALICE, "10.0.0.1", OP.READ, KIND.TOPIC, "t")


def test_a_cached_decision_is_forgotten_when_bindings_change() -> None:
    index = AclIndex()
    authorizer = AclAuthorizer(index)
    assert not authorizer.allows(ALICE, "h", OP.READ, KIND.TOPIC, "t")
    index.add(acl(ALLOW, OP.READ, "t"))
    authorizer.forget()
    assert authorizer.allows(ALICE, "h", OP.READ, KIND.TOPIC, "t")


def test_the_cache_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "_MOST_CACHED", 10)
    authorizer = authorizer_of([acl(ALLOW, OP.READ, "t", PREFIXED)])
    for number in range(100):
        assert authorizer.allows(ALICE, "h", OP.READ, KIND.TOPIC, f"t{number}")
        assert len(authorizer._cached) <= 10


def test_one_address_written_in_two_ways_is_one_host() -> None:
    assert same_host("0:0:0:0:0:0:0:1") == same_host("::1") == "::1"
    assert same_host("::ffff:10.0.0.1") == "10.0.0.1"
    assert same_host("fe80::1%eth0") == "fe80::1"
    assert same_host("not:an:address") == "not:an:address"
    rule = AclBinding(KIND.TOPIC, PatternType.LITERAL, "t", ALICE, "0:0:0:0:0:0:0:1", OP.ALL, ALLOW)
    assert authorizer_of([rule]).allows(ALICE, "::1", OP.READ, KIND.TOPIC, "t")


@given(bindings, names)
def test_a_filter_by_match_selects_what_decides_about_a_name(one: AclBinding, name: str) -> None:
    assert AclFilter(one.kind, name, matches_name=True).selects(one) == is_about(
        one, one.kind, name
    )


@given(bindings, bindings)
def test_a_filter_of_all_parts_selects_one_binding(one: AclBinding, other: AclBinding) -> None:
    exact = AclFilter(
        one.kind, one.name, one.pattern, one.principal, one.host, one.operation, one.permission
    )
    assert exact.selects(one)
    assert exact.selects(other) == (one == other)
    assert AclFilter().selects(other)
