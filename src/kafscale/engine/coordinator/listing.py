"""Walking over the groups in the metadata store: a page of keys at a time, however many there are.

Next door: one group (groups.py), what its keys are called (metadata/keys.py).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import structlog

from kafscale.groups.states import GroupState
from kafscale.metadata import keys
from kafscale.metadata.store import BEYOND, Entry, MetadataStore
from kafscale.model.errors import CorruptObject

logger = structlog.get_logger()

_PAGE: Final = 1000


class Listed(NamedTuple):
    """A group in one line."""

    group_id: str
    protocol_type: str
    state: str


async def each_group(metadata: MetadataStore) -> AsyncIterator[str]:
    """Every group the store knows anything about, be it a claim alone."""
    after = ""
    while rows := await metadata.find(keys.CONSUMERS, after=after, limit=_PAGE):
        for group_id in dict.fromkeys(keys.group_named_by(row.key) for row in rows):
            if group_id is not None:
                yield group_id
                after = keys.group(group_id) + BEYOND
            await asyncio.sleep(0)  # there may be very many
        after = max(after, rows[-1].key)  # a key that none of us wrote is not met for ever


async def stored_groups(metadata: MetadataStore) -> dict[str, Listed]:
    """Every group that has a record or committed offsets, as it was saved."""
    found: dict[str, Listed] = {}
    after = ""
    while rows := await metadata.find(keys.CONSUMERS, after=after, limit=_PAGE):
        for row in rows:
            _note(row, found)
        after = rows[-1].key
        last = keys.group_named_by(after)
        if last is not None and last in found:
            after = max(after, keys.group(last) + BEYOND)  # of this one enough is known
        await asyncio.sleep(0)
    return found


def _note(row: Entry, found: dict[str, Listed]) -> None:
    """Take up what a key says about its group; a claim alone makes no group."""
    group_id = keys.group_named_by(row.key)
    if group_id is None or group_id in found or row.key == keys.group_coordinator(group_id):
        return
    kind, state = "", GroupState.EMPTY.value
    if row.key == keys.group_metadata(group_id):
        try:
            head = keys.decode(keys.GroupHead, row.value)
            kind, state = head.protocol_type, head.state
        except CorruptObject as problem:
            logger.error("group_unreadable", group=group_id, error=str(problem))
    found[group_id] = Listed(group_id, kind, state)
