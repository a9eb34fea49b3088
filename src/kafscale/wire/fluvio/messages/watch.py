"""Watch (1004): a stream of what changes among the objects of one kind."""

from typing import Final

from kafscale.wire.fluvio.schema import I64, U8, FluvioTable, WrittenRow

API_KEY: Final = 1004
UPDATE: Final = 0
DELETE: Final = 1


class WatchRequest(FluvioTable, frozen=True):
    epoch: I64 = 0
    summary: bool = False


class ObjectChange(FluvioTable, frozen=True):
    """A deleted object is written whole, too; clients look at its name alone."""

    kind: U8 = UPDATE
    object: WrittenRow = b""


class WatchUpdates(FluvioTable, frozen=True):
    """Either all objects or what has changed; a client takes no notice of an empty message."""

    epoch: I64 = 0
    changes: list[ObjectChange] = []
    all: list[WrittenRow] = []
