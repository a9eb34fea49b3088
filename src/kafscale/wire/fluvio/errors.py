"""Error codes of the Fluvio protocol: a number, and for some of them values that follow it.

Here: the codes that this broker sends, and which values belong to them. A client cannot read a
response with a number that it does not know, so that only Fluvio's own numbers are here.
Next door: how they travel (schema.py), which error of the engine becomes which of these (the Fluvio
gateway).
"""

from enum import IntEnum
from typing import Final

import msgspec


class FluvioCode(IntEnum):
    """The number of an error, with Fluvio's name."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    OTHER = 2
    NOT_LEADER_FOR_PARTITION = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    PERMISSION_DENIED = 13
    STORAGE_ERROR = 56
    OFFSET_EVICTED = 71
    TOPIC_ERROR = 2000
    TOPIC_NOT_FOUND = 2001
    TOPIC_ALREADY_EXISTS = 2002
    TOPIC_INVALID_CONFIGURATION = 2004
    TOPIC_INVALID_NAME = 2006
    TOPIC_DELETED = 2007
    TOPIC_INVALID_REPLICA_TYPE = 2008
    FETCH_SESSION_NOT_FOUND = 3002
    OFFSET_FLUSH_REQUEST_ERROR = 3003
    SMART_MODULE_NOT_FOUND = 6001
    SMART_MODULE_INVALID = 6002
    SMART_MODULE_INVALID_EXPORTS = 6003
    SMART_MODULE_RUNTIME_ERROR = 6004
    SMART_MODULE_INIT_ERROR = 6006
    SMART_MODULE_MEMORY_LIMIT = 6008
    COMPRESSION_ERROR = 9000


# The values after a number: strings, numbers as the struct module writes them, and bytes with a
# length as records have it (`data`, or `data?` if it may be missing).
DETAILS: Final[dict[int, tuple[str, ...]]] = {
    FluvioCode.OTHER: ("string",),
    FluvioCode.REQUEST_TIMED_OUT: ("Q", "B"),  # milliseconds, and of what: 0 is Produce
    FluvioCode.OFFSET_EVICTED: ("q", "q"),  # asked for, the next one that is there
    FluvioCode.OFFSET_FLUSH_REQUEST_ERROR: ("string",),
    FluvioCode.SMART_MODULE_NOT_FOUND: ("string",),  # its name
    FluvioCode.SMART_MODULE_INVALID: ("string", "string?"),  # why, its name
    FluvioCode.SMART_MODULE_INVALID_EXPORTS: ("string", "string"),  # why, its kind
    # In words, the record's offset, the kind of module, the record's key and value.
    FluvioCode.SMART_MODULE_RUNTIME_ERROR: ("string", "q", "B", "data?", "data"),
    FluvioCode.SMART_MODULE_INIT_ERROR: ("string",),
    FluvioCode.SMART_MODULE_MEMORY_LIMIT: ("Q", "Q"),  # asked for, the most
}


class FluvioError(msgspec.Struct, frozen=True):
    """An error as a response carries it."""

    code: int = FluvioCode.NONE
    details: tuple[str | int | bytes | None, ...] = ()

    @staticmethod
    def other(text: str) -> "FluvioError":
        """An error that the client shows in these words."""
        return FluvioError(FluvioCode.OTHER, (text,))


NO_ERROR: Final = FluvioError()
