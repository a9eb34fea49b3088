"""List (1003): the objects of one kind, now."""

from typing import Annotated, Final

from kafscale.wire.fluvio.schema import FluvioTable, VersionSpan, WrittenRow

API_KEY: Final = 1003


class ListRequest(FluvioTable, frozen=True):
    """Filters are parts of names; an object must have one of them, if there are any."""

    name_filters: list[str] = []
    summary: bool = False
    system: Annotated[bool, VersionSpan(13)] = False


class ObjectList(FluvioTable, frozen=True):
    objects: list[WrittenRow] = []
