"""Key names keep what people type inside its own key space."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.metadata import keys
from kafscale.model.endpoints import PLAINTEXT, Endpoint
from kafscale.model.errors import CorruptObject

# What a client may send as a name: also text that is no valid Unicode.
TEXT = st.text(max_size=20) | st.binary(max_size=20).map(
    lambda raw: raw.decode("utf-8", "surrogateescape")
)


def test_the_names_are_those_of_the_schema() -> None:
    assert keys.topic_config("orders") == "/kafscale/topics/orders/config"
    assert keys.broker(2) == "/kafscale/brokers/2"
    assert keys.group_metadata("g") == "/kafscale/consumers/g/metadata"
    assert keys.group_offset("g", "orders", 1) == "/kafscale/consumers/g/offsets/orders/1"


def test_a_group_cannot_reach_into_another() -> None:
    assert not keys.group_offset("a/offsets/b", "t", 0).startswith(keys.group_offsets("a"))
    assert keys.group_metadata("a/offsets") == "/kafscale/consumers/a%2Foffsets/metadata"


@given(TEXT)
def test_any_text_is_one_segment_and_comes_back(text: str) -> None:
    part = keys.segment(text)
    assert "/" not in part
    assert part.isascii()
    assert keys.text_of(part) == text


@given(TEXT, TEXT)
def test_different_groups_have_different_keys(one: str, other: str) -> None:
    assert (keys.group(one) == keys.group(other)) == (one == other)
    assert keys.group(one).startswith(keys.group(other)) == (one == other)


@given(TEXT)
def test_a_topic_is_found_again_in_its_key(name: str) -> None:
    assert keys.topic_named_by(keys.topic_config(name)) == name
    assert keys.topic_named_by(f"{keys.topic(name)}partitions/0") is None
    assert keys.topic_named_by(keys.group_metadata(name)) is None


@given(TEXT, TEXT, st.integers(0, 2**31 - 1))
def test_a_place_is_found_again_in_the_key_of_its_offset(
    group: str, name: str, partition: int
) -> None:
    key = keys.group_offset(group, name, partition)
    assert keys.place_committed_by(key) == (name, partition)
    for other in (keys.group_metadata(group), keys.topic_config(name), f"{key}x", f"{key}/1"):
        assert keys.place_committed_by(other) is None


def test_values_survive_the_way_through_json() -> None:
    broker = keys.BrokerRow(
        broker_id=1, host="h", port=9092, rack="a", started_at="2026-01-01T00:00:00Z", version="1"
    )
    assert keys.decode(keys.BrokerRow, keys.encode(broker)) == broker
    assert keys.decode(keys.Mark, b'{"next": 7, "later": true}') == keys.Mark(next=7)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"next": "x"}', b'{"next": "\xff"}'])
def test_what_is_not_the_value_is_corrupt(raw: bytes) -> None:
    with pytest.raises(CorruptObject, match="Mark"):
        keys.decode(keys.Mark, raw)


@pytest.mark.parametrize("members", [0, 3, 2000])
def test_a_group_comes_back_whether_it_was_packed_or_not(members: int) -> None:
    member = keys.GroupMemberRow(
        client_id="c" * 200,
        client_host="/10.0.0.1",
        heartbeat_at="",
        session_timeout_ms=1,
        rebalance_timeout_ms=2,
    )
    group = keys.GroupRow(
        group_id="g",
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        leader="m0",
        generation_id=4,
        members={f"m{number}": member for number in range(members)},
    )
    raw = keys.encode_group(group)
    assert len(raw) <= keys.PACKED_FROM_BYTES
    back = keys.decode_group(raw)
    assert (back.members, back.generation_id, back.leader) == (group.members, 4, "m0")
    assert keys.decode(keys.GroupHead, raw).state == "Stable"


def test_members_that_cannot_be_unpacked_are_said_to_be_corrupt() -> None:
    group = keys.PackedGroup(
        group_id="g",
        state="Stable",
        protocol_type="",
        protocol="",
        leader="",
        generation_id=1,
        packed=b"junk",
    )
    with pytest.raises(CorruptObject, match="'g'"):
        keys.decode_group(keys.encode(group))


def test_a_registration_of_an_earlier_version_has_one_listener() -> None:
    raw = b'{"broker_id":1,"host":"h","port":9092,"started_at":"","version":"0.1"}'
    assert keys.decode(keys.BrokerRow, raw).by_listener() == {PLAINTEXT: Endpoint("h", 9092)}


def test_a_registration_names_every_listener() -> None:
    endpoints = {"IN": Endpoint("in", 1), "OUT": Endpoint("out", 2)}
    row = keys.BrokerRow(
        broker_id=1, host="in", port=1, endpoints=endpoints, started_at="", version="0.1"
    )
    assert keys.decode(keys.BrokerRow, keys.encode(row)).by_listener() == endpoints


@given(
    names=st.dictionaries(
        st.sampled_from(["client-id", "ip", "user"]),
        st.none() | TEXT,
        min_size=1,
    )
)
def test_entities_of_quotas_are_read_back_from_their_keys(names: dict[str, str | None]) -> None:
    entity = tuple(sorted(names.items()))
    key = keys.quota(entity)
    assert keys.quota_entity(key) == entity
    assert key.count("/") == len(entity) - 1
