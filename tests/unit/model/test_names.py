"""Topic names and topic ids."""

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model import names
from kafscale.model.errors import InvalidTopicName
from kafscale.model.names import TopicId


@pytest.mark.parametrize(
    "name", ["a", "orders", "a.b_c-D9", "__consumer_offsets", "...", "x" * 249, "a/b.c/d-1"]
)
def test_legal_names_pass(name: str) -> None:
    names.check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "cannot be empty"),
        (".", "cannot be '.'"),
        ("..", "cannot be '..'"),
        ("x" * 250, "at most 249 characters, this one 250"),
        ("a/b", "a name is"),
        ("a/b/c/d", "a name is"),
        ("a//c", "cannot be empty"),
        ("a/../c", "cannot be"),
        ("a/b c/d", "only letters"),
        ("a@b", "only letters"),
        ("a b", "only letters"),
        ("grüße", "only letters"),
        ("a\n", "only letters"),
    ],
)
def test_illegal_names_are_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopicName, match=reason):
        names.check_topic_name(name)


def test_names_that_differ_in_dots_and_underscores_alone_collide() -> None:
    assert names.collides("a.b", "a_b")
    assert not names.collides("a.b", "a.b")
    assert not names.collides("a.b", "a-b")


def test_ids_are_written_as_kafka_prints_them() -> None:
    raw = TopicId(uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8").bytes)
    assert names.topic_id_text(raw) == "a6e4EJ2tEdGAtADAT9QwyA"
    assert names.topic_id_text(names.ZERO_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAA"


@given(st.binary(min_size=16, max_size=16))
def test_an_id_survives_both_written_forms(raw: bytes) -> None:
    assert names.topic_id_from_text(names.topic_id_text(TopicId(raw))) == raw
    assert names.topic_id_from_hex(raw.hex()) == raw


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21 + "B", "A" * 21 + "!", "ä" * 22, "A" * 22 + "==", "00" * 16]
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a topic id"):
        names.topic_id_from_text(text)


@pytest.mark.parametrize("text", ["", "zz" * 16, "00" * 15, "00 " * 16, "AB" * 16])
def test_what_is_no_hex_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a topic id|non-hexadecimal"):
        names.topic_id_from_hex(text)


class LoadedDice:
    """Throws what it was given, in order."""

    def __init__(self, *throws: bytes) -> None:
        self.throws = list(throws)

    def token(self, size: int) -> bytes:
        throw = self.throws.pop(0)
        assert len(throw) == size
        return throw


def test_a_fresh_id_is_never_reserved_and_never_looks_like_an_option() -> None:
    dashed = base64.urlsafe_b64decode("-" + "A" * 21 + "==")
    good = bytes(range(16))
    dice = LoadedDice(bytes(16), bytes(15) + b"\x01", dashed, good)
    assert names.fresh_topic_id(dice) == good


def test_topics_of_brokers_are_internal() -> None:
    assert names.is_internal("__consumer_offsets")
    assert names.is_internal("__transaction_state")
    assert not names.is_internal("__my_own")
