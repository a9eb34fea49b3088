"""The states of an open log, and the events that change them.

Here: the table alone. A pair that is not in it is a mistake in the program.
Next door: what happens on the way (log.py).
"""

from enum import Enum
from typing import Final


class LogState(Enum):
    """The life of a log object in memory."""

    OPENING = "opening"  # the bucket is being read, for the first time or again
    OPEN = "open"
    CLOSED = "closed"  # this broker has let go of it
    STOPPED = "stopped"  # its objects contradict each other, or a flush failed without a reason
    ENDED = "ended"  # its topic has been deleted (rule 25)


class LogEvent(Enum):
    """What changes the state of a log."""

    OPENED = "the bucket has been read"
    TAIL_LOST = "another writer has committed"
    FAILED = "going on would be guessing"
    TOPIC_ENDED = "the topic has been deleted"
    CLOSED = "the broker lets go"


NEXT: Final[dict[tuple[LogState, LogEvent], LogState]] = {
    (LogState.OPENING, LogEvent.OPENED): LogState.OPEN,
    (LogState.OPEN, LogEvent.TAIL_LOST): LogState.OPENING,
    (LogState.OPENING, LogEvent.FAILED): LogState.STOPPED,
    (LogState.OPEN, LogEvent.FAILED): LogState.STOPPED,
    (LogState.OPENING, LogEvent.TOPIC_ENDED): LogState.ENDED,
    (LogState.OPEN, LogEvent.TOPIC_ENDED): LogState.ENDED,
    (LogState.OPENING, LogEvent.CLOSED): LogState.CLOSED,
    (LogState.OPEN, LogEvent.CLOSED): LogState.CLOSED,
    # A log that is at rest may be closed again, and keeps its reason.
    (LogState.CLOSED, LogEvent.CLOSED): LogState.CLOSED,
    (LogState.STOPPED, LogEvent.CLOSED): LogState.STOPPED,
    (LogState.ENDED, LogEvent.CLOSED): LogState.ENDED,
}

AT_REST: Final = frozenset({LogState.CLOSED, LogState.STOPPED, LogState.ENDED})


def next_state(state: LogState, event: LogEvent) -> LogState:
    """The state after `event`; AssertionError if a log in `state` cannot have it."""
    following = NEXT.get((state, event))
    if following is None:
        raise AssertionError(f"a log that is {state.value} cannot have: {event.value}")
    return following
