"""Listing the groups in the metadata store, one page of keys at a time.

Next door: one group (groups.py), the names of its keys (metadata/keys.py).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import structlog

from kafscale.groups.classic.states import GroupState
from kafscale.metadata import keys
from kafscale.metadata.store import BEYOND, Entry, MetadataStore
from kafscale.model.errors import CorruptObject
from kafscale.model.group_types import CLASSIC

logger = structlog.get_logger()

_PAGE: Final = 1000


class Listed(NamedTuple):
    """A group as a list of groups shows it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC


async def each_group(metadata: MetadataStore) -> AsyncIterator[str]:
    """Every group that has any key in the store, even if that is only a claim."""
    after = ""
    while entries := await metadata.find(keys.CONSUMERS, after=after, limit=_PAGE):
        for group_id in dict.fromkeys(keys.group_named_by(entry.key) for entry in entries):
            if group_id is not None:
                yield group_id
                after = keys.group(group_id) + BEYOND
            await asyncio.sleep(0)  # there may be very many
        after = max(after, entries[-1].key)  # beyond a key that names no group


async def stored_groups(metadata: MetadataStore) -> dict[str, Listed]:
    """Every group that has a record or committed offsets, as it was saved."""
    listed: dict[str, Listed] = {}
    after = ""
    while entries := await metadata.find(keys.CONSUMERS, after=after, limit=_PAGE):
        for entry in entries:
            _add_group(entry, listed)
        after = entries[-1].key
        last = keys.group_named_by(after)
        if last is not None and last in listed:
            after = max(after, keys.group(last) + BEYOND)  # the rest of its keys adds nothing
        await asyncio.sleep(0)
    return listed


def _add_group(entry: Entry, listed: dict[str, Listed]) -> None:
    """Add the group that an entry is about. A claim alone makes no group."""
    group_id = keys.group_named_by(entry.key)
    if group_id is None or group_id in listed or entry.key == keys.group_coordinator(group_id):
        return
    kind, state, group_type = "", GroupState.EMPTY.value, CLASSIC
    if entry.key == keys.group_metadata(group_id):
        try:
            head = keys.decode(keys.GroupHead, entry.value)
            kind, state, group_type = head.protocol_type, head.state, head.group_type
        except CorruptObject as problem:
            logger.error("group_unreadable", group=group_id, error=str(problem))
    listed[group_id] = Listed(group_id, kind, state, group_type)
