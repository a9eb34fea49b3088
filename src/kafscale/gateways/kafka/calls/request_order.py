"""What a request waits for: a connection's requests take effect in their order.

Here: where an API can stand in that order. A standing says what is unsettled until the request is
answered, and what must be settled before the request begins. From the standings of two APIs follows
whether a request waits for an earlier one of the same connection.
Next door: the queue that goes by it (kafka/session.py), where each API stands (ORDER in apis/).
Never here: requests of different connections. They take effect in any order.

A connection has one request at a time that goes through rows: the next one begins when it is
answered, so that no client gets more of the broker's time by sending many at once.

Two APIs do not wait for requests of their own kind, so that clients can send many at once: Produce
and OffsetCommit. Their order is fixed when they begin, by the flush queue and by the round of
commits. Nothing waits for a Fetch, a JoinGroup or a SyncGroup: they may wait long, and what they
change is changed when they begin.
"""

from collections.abc import Mapping
from enum import Flag, auto
from typing import Final, NamedTuple


class Unsettled(Flag):
    """What a request under way may still change, or still reads."""

    NOTHING = 0
    TOPICS = auto()  # which topics there are, and their settings
    TOPIC_READS = auto()
    RECORDS = auto()  # which records there are
    RECORD_READS = auto()
    OFFSETS = auto()  # what groups have committed
    OFFSET_READS = auto()
    GROUPS = auto()  # which groups there are
    GROUP_READS = auto()
    USERS = auto()  # credentials and delegation tokens
    USER_READS = auto()
    ROWS = auto()  # answers to the rows of a request, of which there may be very many


class Standing(NamedTuple):
    """Where an API stands in the order of requests."""

    leaves: Unsettled  # until it is answered
    needs: Unsettled  # settled before it begins


_NOTHING = Unsettled.NOTHING
_TOPICS, _TOPIC_READS = Unsettled.TOPICS, Unsettled.TOPIC_READS
_RECORDS, _RECORD_READS = Unsettled.RECORDS, Unsettled.RECORD_READS
_OFFSETS, _OFFSET_READS = Unsettled.OFFSETS, Unsettled.OFFSET_READS
_GROUPS, _GROUP_READS = Unsettled.GROUPS, Unsettled.GROUP_READS


def _by_rows(leaves: Unsettled, needs: Unsettled) -> Standing:
    """The standing of an API that goes through rows."""
    return Standing(leaves | Unsettled.ROWS, needs | Unsettled.ROWS)


FREE: Final = Standing(_NOTHING, _NOTHING)

APPENDS_RECORDS: Final = Standing(_RECORDS, _TOPICS | _RECORD_READS)
POLLS_RECORDS: Final = Standing(_NOTHING, _TOPICS | _RECORDS)
READS_RECORDS: Final = _by_rows(_RECORD_READS, _TOPICS | _RECORDS)
DELETES_RECORDS: Final = _by_rows(_RECORDS | _RECORD_READS, _TOPICS | _RECORDS | _RECORD_READS)

READS_TOPICS: Final = _by_rows(_TOPIC_READS, _TOPICS)
READS_OR_CREATES_TOPICS: Final = _by_rows(_TOPICS, _TOPICS)  # it changes no topic that is there
CHANGES_TOPICS: Final = _by_rows(
    _TOPICS, _TOPICS | _TOPIC_READS | _RECORDS | _RECORD_READS | _OFFSETS | _OFFSET_READS
)

COMMITS_OFFSETS: Final = Standing(_OFFSETS, _TOPICS | _OFFSET_READS | _GROUPS | _GROUP_READS)
# A transaction ends behind the records and offsets that the client has sent for it.
ENDS_TRANSACTIONS: Final = Standing(
    _RECORDS | _OFFSETS, _RECORDS | _RECORD_READS | _OFFSETS | _OFFSET_READS
)
READS_OFFSETS: Final = _by_rows(_OFFSET_READS, _TOPICS | _OFFSETS | _GROUPS)
DELETES_OFFSETS: Final = _by_rows(
    _OFFSETS | _OFFSET_READS, _TOPICS | _OFFSETS | _OFFSET_READS | _GROUPS
)

READS_GROUPS: Final = _by_rows(_GROUP_READS, _GROUPS | _OFFSETS)
DELETES_GROUPS: Final = _by_rows(
    _GROUPS | _OFFSETS, _GROUPS | _GROUP_READS | _OFFSETS | _OFFSET_READS
)
# The group may give a member's partitions to another one as soon as this begins. The new member
# then asks for the offsets that this member has committed.
CHANGES_MEMBERS: Final = Standing(_NOTHING, _GROUPS | _GROUP_READS | _OFFSETS)

READS_USERS: Final = _by_rows(Unsettled.USER_READS, Unsettled.USERS)
CHANGES_USERS: Final = _by_rows(Unsettled.USERS, Unsettled.USERS | Unsettled.USER_READS)


def list_waits(standings: Mapping[int, Standing]) -> dict[int, frozenset[int]]:
    """By API key: the APIs whose earlier requests must be answered before a request begins."""
    return {
        key: frozenset(
            earlier for earlier, other in standings.items() if other.leaves & standing.needs
        )
        for key, standing in standings.items()
    }


def list_reads(standings: Mapping[int, Standing]) -> frozenset[int]:
    """The APIs, by key, that go through rows and change nothing."""
    reads = (
        Unsettled.ROWS
        | Unsettled.TOPIC_READS
        | Unsettled.RECORD_READS
        | Unsettled.OFFSET_READS
        | Unsettled.GROUP_READS
        | Unsettled.USER_READS
    )
    return frozenset(
        key
        for key, standing in standings.items()
        if standing.leaves and not standing.leaves & ~reads
    )
