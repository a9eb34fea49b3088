"""Which errors clients cause, and by which names they are counted, for all doors.

Here: errors that no correct client causes, and errors that well-behaved clients meet now and then
(an offset that has expired, a topic that is there already). Clients do not cause the others.
Next door: how many lines a client gets (client_log.py), errors of Kafka's requests
(kafka/calls/client_errors.py).
"""

import re
from enum import Enum
from functools import cache
from typing import Final

from kafscale.model.errors import (
    BadBatch,
    BadSequence,
    FencedInstance,
    FencedLeaderEpoch,
    GroupFull,
    GroupMemoryFull,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    KafscaleError,
    OffsetMetadataTooLarge,
    OffsetOutOfRange,
    TopicError,
    TopicExists,
    UnknownLeaderEpoch,
    UnknownMember,
    UnknownTopic,
    UnknownTopicId,
    UnpacksTooMuch,
)


class Blame(Enum):
    """What an error says of the client that caused it."""

    NONE = "none"  # the client did not cause it
    ORDINARY = "ordinary"  # correct clients meet it, too
    BAD = "bad"  # no correct client sends this


_ORDINARY: Final = (
    BadSequence,
    FencedInstance,
    FencedLeaderEpoch,
    IllegalGeneration,
    OffsetOutOfRange,
    TopicExists,
    UnknownLeaderEpoch,
    UnknownMember,
    UnknownTopic,
    UnknownTopicId,
    UnpacksTooMuch,
)
_BAD: Final = (
    BadBatch,
    GroupFull,
    GroupMemoryFull,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    OffsetMetadataTooLarge,
    TopicError,
)
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


def blame_of(problem: KafscaleError) -> Blame:
    """What an error says of the client that caused it."""
    if isinstance(problem, _ORDINARY):
        return Blame.ORDINARY
    return Blame.BAD if isinstance(problem, _BAD) else Blame.NONE


def reason_of(problem: type[Exception]) -> str:
    """`CorruptBatch` is counted and logged as `corrupt_batch`."""
    return _snake_case(problem.__name__)


@cache
def _snake_case(name: str) -> str:
    return _WORD.sub("_", name).lower()
