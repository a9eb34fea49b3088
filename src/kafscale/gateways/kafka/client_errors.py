"""Telling operators about requests that a client should not have sent.

Here: which errors clients cause, and how they are counted and logged. Errors that well-behaved
clients meet now and then (an offset that has expired, a topic that is gone) are only counted, so
that clients cannot fill the log with them.
Next door: connections that were ended (gateways/listener.py).
"""

import re
from typing import Final

import structlog

from kafscale.gateways.kafka.call import Call
from kafscale.gateways.kafka.errors import words_of
from kafscale.model.errors import (
    BadBatch,
    BadSequence,
    FencedInstance,
    FencedLeaderEpoch,
    GroupFull,
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
)

logger = structlog.get_logger()

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
)
_BAD: Final = (
    BadBatch,
    GroupFull,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    OffsetMetadataTooLarge,
    TopicError,
)
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


def note(call: Call, problem: KafscaleError) -> None:
    """Count and log an error if the client caused it."""
    if isinstance(problem, _ORDINARY):
        note_ordinary(call, reason_of(type(problem)), words_of(problem))
    elif isinstance(problem, _BAD):
        note_bad(call, reason_of(type(problem)), words_of(problem))


def note_bad(call: Call, reason: str, detail: str) -> None:
    """Count and log something that no correct client sends."""
    call.engine.metrics.bad_requests.labels(reason).inc()
    logger.info("bad_request", peer=call.peer, reason=reason, detail=detail)


def note_ordinary(call: Call, reason: str, detail: str) -> None:
    """Count something that correct clients meet, too; the log shows it at level debug."""
    call.engine.metrics.bad_requests.labels(reason).inc()
    logger.debug("bad_request", peer=call.peer, reason=reason, detail=detail)


def reason_of(kind: type[KafscaleError]) -> str:
    """`CorruptBatch` is counted as `corrupt_batch`."""
    return _WORD.sub("_", kind.__name__).lower()
