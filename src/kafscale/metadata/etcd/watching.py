"""Following keys in etcd over broken connections, stopped members and compaction.

Here: where a watch continues after a break. Events are numbered by revision: the watch asks for
those after the last one it saw. What etcd has compacted away is replaced by a listing.
Next door: one stream (client.py), what a watcher is told (metadata/store.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from itertools import groupby
from typing import Any, Final

import structlog

from kafscale.metadata.etcd import messages
from kafscale.metadata.etcd.client import EtcdClient
from kafscale.metadata.etcd.ranges import entry_of, range_of
from kafscale.metadata.store import Change, Listing, Watch
from kafscale.model.errors import MetadataUnavailable
from kafscale.retry import Backoff, RetryPolicy

logger = structlog.get_logger()

_RETRY: Final = RetryPolicy(first_s=0.1, longest_s=1.0)


class _Forgotten(Exception):
    """etcd no longer has the changes that come next."""


async def watch(
    client: EtcdClient, prefix: str, root: str, read: Callable[[], Awaitable[Listing]]
) -> Watch:
    """Follow the keys under `root + prefix`; `read` lists them."""
    seen = 0  # every revision up to this one was yielded; 0: none was
    backoff = Backoff(_RETRY)
    while True:
        try:
            if not seen:
                listing = await read()
                seen = listing.version
                yield listing
            async with aclosing(_changes(client, prefix, root, seen + 1)) as changes:
                async for change in changes:
                    backoff.restart()
                    if change.version > seen:
                        seen = change.version
                        yield change
        except _Forgotten:
            logger.info("watch_begins_anew", prefix=prefix, seen=seen)
            seen = 0
        except MetadataUnavailable as problem:
            logger.info("watch_interrupted", prefix=prefix, seen=seen, error=str(problem))
            await asyncio.sleep(backoff.next_s())


async def _changes(client: EtcdClient, prefix: str, root: str, start: int) -> Any:
    begin, end = range_of(root + prefix)
    create = messages.WatchCreate(key=begin, range_end=end, start_revision=start)
    request = messages.WatchRequest(create=create)
    async with aclosing(client.listen(messages.WATCH, request)) as answers:
        async for answer in answers:
            if answer.compact_revision:
                raise _Forgotten
            if answer.canceled:
                client.doubt_token()
                raise MetadataUnavailable(f"etcd ended the watch: {answer.cancel_reason}")
            for change in _grouped(answer.events, root):
                yield change


def _grouped(events: Any, root: str) -> Iterator[Change]:
    """One change per revision: all of a transaction is in one answer."""
    for revision, together in groupby(events, key=lambda event: event.kv.mod_revision):
        change = Change(revision, [], [])
        for event in together:
            entry = entry_of(event.kv, root)
            if event.type == messages.DELETED:
                change.removed.append(entry.key)
            else:
                change.written.append(entry)
        yield change
