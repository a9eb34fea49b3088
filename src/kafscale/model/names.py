"""Topic names and topic ids.

Here: which names a topic may have, and topic ids in their three forms.
Next door: what a topic is (topics.py), tenants and namespaces (tenancy.py), what objects are called
(log/formats/keys.py).
"""

import base64
import binascii
import re
from typing import Final, NewType

from kafscale.model.clock import Dice
from kafscale.model.errors import InvalidTopicName

TopicId = NewType("TopicId", bytes)  # 16 bytes; on the wire and nowhere else

MAX_TOPIC_NAME: Final = 249
ZERO_TOPIC_ID: Final = TopicId(bytes(16))  # means "no id" in the protocol
# Kafka keeps this one for its own metadata log.
_RESERVED_IDS: Final = frozenset({ZERO_TOPIC_ID, TopicId(bytes(15) + b"\x01")})
CONSUMER_OFFSETS: Final = "__consumer_offsets"
_INTERNAL: Final = frozenset({CONSUMER_OFFSETS, "__transaction_state", "__share_group_state"})
_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicName, with the reason, unless a topic may be kept under this name.

    It has one part, or three: those are tenant, namespace and topic.
    """
    parts = name.split("/")
    if len(parts) not in (1, 3):
        raise InvalidTopicName(f"a name is 'topic' or 'tenant/namespace/topic', not {name!r}")
    _check_length(name)
    for part in parts:
        check_short_name(part)


def check_short_name(name: str) -> None:
    """Raise InvalidTopicName, with the reason, unless a name of one part may be this."""
    if not name:
        raise InvalidTopicName("a topic's name cannot be empty")
    if name in {".", ".."}:
        raise InvalidTopicName(f"a topic's name cannot be {name!r}")
    _check_length(name)
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicName(
            f"a topic's name has only letters, digits, '.', '_' and '-', not {name!r}"
        )


def _check_length(name: str) -> None:
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopicName(
            f"a topic's name has at most {MAX_TOPIC_NAME} characters, this one {len(name)}"
        )


def is_internal(name: str) -> bool:
    """Whether Kafka keeps this name for a topic of the brokers' own; no client creates it."""
    return name in _INTERNAL


def collision_key(name: str) -> str:
    """Equal for two names that metrics cannot tell apart: '.' and '_' count as the same."""
    return name.replace(".", "_")


def collides(name: str, other: str) -> bool:
    """Whether topics of these two names must not exist at the same time."""
    return name != other and collision_key(name) == collision_key(other)


def fresh_topic_id(dice: Dice) -> TopicId:
    """A new random id. It is not reserved, and its text does not look like an option."""
    while True:
        topic_id = TopicId(dice.token(16))
        if topic_id not in _RESERVED_IDS and not topic_id_text(topic_id).startswith("-"):
            return topic_id


def topic_id_text(topic_id: TopicId) -> str:
    """Write an id the way Kafka's tools print it: 22 characters."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def topic_id_from_text(text: str) -> TopicId:
    """Read what `topic_id_text` writes; ValueError for anything else."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"==", altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error) as bad:
        raise ValueError(f"not a topic id: {text!r}") from bad
    return _whole(raw, text)


def topic_id_from_hex(text: str) -> TopicId:
    """Read the form descriptors hold; ValueError for anything else."""
    return _whole(bytes.fromhex(text), text)


def _whole(raw: bytes, text: str) -> TopicId:
    topic_id = TopicId(raw)
    if len(raw) != 16 or text not in {topic_id_text(topic_id), raw.hex()}:
        raise ValueError(f"not a topic id: {text!r}")
    return topic_id
