"""Whose quota counts, what may be set, and what is asked for."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.access.quotas import (
    CLIENT_ID,
    IP,
    USER,
    ClientQuotas,
    EntityFilter,
    QuotaKey,
    check_filters,
    check_quota,
    entity_of,
    matches,
)
from kafscale.model.errors import InvalidRequest, UnsupportedEntity

KEY = QuotaKey.PRODUCED_BYTES

# Kafka's order, most precise first.
ORDER = [
    [(USER, "u"), (CLIENT_ID, "c")],
    [(USER, "u"), (CLIENT_ID, None)],
    [(USER, "u")],
    [(USER, None), (CLIENT_ID, "c")],
    [(USER, None), (CLIENT_ID, None)],
    [(USER, None)],
    [(CLIENT_ID, "c")],
    [(CLIENT_ID, None)],
]


@given(st.sets(st.integers(0, 7)))
def test_the_most_precise_quota_of_a_client_counts(levels: set[int]) -> None:
    quotas = ClientQuotas()
    for level in levels:
        quotas.set(entity_of(ORDER[level]), {KEY: level + 1})
    meter = quotas.limits_of("u", "c", 0.0).produced_bytes
    assert (None if meter is None else meter.bound) == (min(levels) + 1 if levels else None)


def test_each_kind_of_quota_is_looked_for_by_itself() -> None:
    quotas = ClientQuotas()
    quotas.set(entity_of([(USER, "u")]), {QuotaKey.CONSUMED_BYTES: 5})
    quotas.set(entity_of([(CLIENT_ID, None)]), {KEY: 7})
    found = quotas.limits_of("u", "c", 0.0)
    assert [None if one is None else one.bound for one in found] == [7, 5, None, None]


@pytest.mark.parametrize(
    ("level", "shares"),
    [(0, "uc"), (1, "uc"), (2, "u"), (3, "uc"), (4, "uc"), (5, "u"), (6, "c"), (7, "c")],
)
def test_who_shares_a_quota_follows_from_where_it_was_found(level: int, shares: str) -> None:
    quotas = ClientQuotas()
    entity = ORDER[level]
    quotas.set(entity_of(entity), {KEY: 1})
    names = dict(entity)
    users = ["u"] if names.get(USER, "") == "u" else ["u", "v"]
    clients = ["c"] if names.get(CLIENT_ID, "") == "c" else ["c", "d"]
    meters = {
        id(quotas.limits_of(user, client, 0.0).produced_bytes)
        for user, client in itertools.product(users, clients)
    }
    expected = (len(users) if "u" in shares else 1) * (len(clients) if "c" in shares else 1)
    assert len(meters) == expected


def test_a_quota_that_changes_keeps_what_was_used() -> None:
    quotas = ClientQuotas()
    entity = entity_of([(CLIENT_ID, "c")])
    quotas.set(entity, {KEY: 100})
    first = quotas.limits_of("u", "c", 0.0).produced_bytes
    assert first is not None
    first.record(5000, 0.0)
    quotas.set(entity, {KEY: 200})
    second = quotas.limits_of("u", "c", 0.0).produced_bytes
    assert second is not None
    assert second.bound == 200
    assert second.delay_s(0.0) == pytest.approx(15.0)
    quotas.set(entity, None)
    assert quotas.limits_of("u", "c", 0.0).produced_bytes is None
    assert quotas.keys == frozenset()


def test_a_client_that_invents_ids_cannot_grow_memory() -> None:
    quotas = ClientQuotas(most_meters=50)
    quotas.set(entity_of([(CLIENT_ID, None)]), {KEY: 100})
    for number in range(1000):
        quotas.limits_of("u", f"client-{number}", 0.0)
        quotas.limits_of("u", "x" * 5000 + str(number), 0.0)
    assert len(quotas._meters) == 50
    assert len(quotas._limits) <= 50
    assert max(len(name) for _, _, name in quotas._meters) <= 256


def test_a_user_cannot_forget_its_use_by_inventing_client_ids() -> None:
    quotas = ClientQuotas(most_meters=50)
    quotas.set(entity_of([(USER, None)]), {KEY: 100})
    meter = quotas.limits_of("u", "first", 0.0).produced_bytes
    for number in range(1000):
        assert quotas.limits_of("u", f"client-{number}", 0.0).produced_bytes is meter


@pytest.mark.parametrize("written", ["2001:db8::1", "2001:DB8:0::1", "2001:db8:0:0:0:0:0:1"])
def test_an_address_is_the_same_however_it_is_written(written: str) -> None:
    entity = entity_of([(IP, written)])
    quotas = ClientQuotas()
    quotas.set(entity, {QuotaKey.CONNECTIONS: 5.0})
    assert quotas.connections("2001:db8::1", 0.0) is not None
    assert quotas.connections("2001:db8::2", 0.0) is None
    assert matches(entity, [EntityFilter(IP, "2001:0db8::1")], is_strict=True)


def test_an_address_has_its_own_quota_or_the_default() -> None:
    quotas = ClientQuotas()
    assert quotas.connections("10.0.0.1", 0.0) is None
    quotas.set(entity_of([(IP, None)]), {QuotaKey.CONNECTIONS: 5})
    quotas.set(entity_of([(IP, "10.0.0.1")]), {QuotaKey.CONNECTIONS: 9})
    found = [quotas.connections(address, 0.0) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3")]
    assert [one.bound for one in found if one is not None] == [9, 5, 5]
    assert found[1] is not found[2]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("topic", "t")],
        [(USER, "")],
        [(USER, "a"), (USER, "b")],
        [(IP, "10.0.0.1"), (USER, "a")],
        [(IP, "host.example.com")],
        [(CLIENT_ID, "x" * 5000)],
    ],
)
def test_what_is_no_entity_is_refused(parts: list[tuple[str, str | None]]) -> None:
    with pytest.raises(InvalidRequest):
        entity_of(parts)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        (USER, "connection_creation_rate", 5),
        (IP, "producer_byte_rate", 5),
        (USER, "leader.replication.throttled.rate", 5),
        (USER, "producer_byte_rate", 0),
        (USER, "producer_byte_rate", -1),
        (USER, "producer_byte_rate", 1.5),
        (USER, "request_percentage", float("nan")),
        (USER, "request_percentage", float("inf")),
        (USER, "consumer_byte_rate", 1e30),
        (IP, "connection_creation_rate", 2**31),
    ],
)
def test_what_no_quota_can_be_is_refused(kind: str, key: str, value: float) -> None:
    with pytest.raises(InvalidRequest):
        check_quota(entity_of([(kind, None)]), key, value)


def test_quotas_that_can_be_set() -> None:
    for key in set(QuotaKey) - {QuotaKey.CONNECTIONS}:
        check_quota(entity_of([(USER, "a"), (CLIENT_ID, None)]), key, 1024.0)
    check_quota(entity_of([(USER, "a")]), QuotaKey.REQUEST_TIME, 0.5)
    check_quota(entity_of([(IP, "::1")]), QuotaKey.CONNECTIONS, 5.0)
    check_quota(entity_of([(USER, "a")]), QuotaKey.MUTATIONS, None)


@pytest.mark.parametrize(
    ("filters", "is_strict", "found"),
    [
        ([], False, {"a", "a+x", "default", "x"}),
        ([], True, set()),
        ([EntityFilter(USER, is_any=True)], False, {"a", "a+x", "default"}),
        ([EntityFilter(USER, is_any=True)], True, {"a", "default"}),
        ([EntityFilter(USER, "a")], False, {"a", "a+x"}),
        ([EntityFilter(USER, None)], False, {"default"}),
        ([EntityFilter(USER, "a"), EntityFilter(CLIENT_ID, "x")], True, {"a+x"}),
        ([EntityFilter(CLIENT_ID, "y")], False, set()),
    ],
)
def test_entities_are_found_by_type_and_name(
    filters: list[EntityFilter], is_strict: bool, found: set[str]
) -> None:
    entities = {
        "a": entity_of([(USER, "a")]),
        "a+x": entity_of([(USER, "a"), (CLIENT_ID, "x")]),
        "default": entity_of([(USER, None)]),
        "x": entity_of([(CLIENT_ID, "x")]),
    }
    check_filters(filters)
    matched = {
        name for name, entity in entities.items() if matches(entity, filters, is_strict=is_strict)
    }
    assert matched == found


@pytest.mark.parametrize(
    ("types", "error"),
    [
        ([""], InvalidRequest),
        (["topic"], UnsupportedEntity),
        ([USER, USER], InvalidRequest),
        ([IP, USER], InvalidRequest),
    ],
)
def test_questions_that_make_no_sense_are_refused(types: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_filters([EntityFilter(kind) for kind in types])
