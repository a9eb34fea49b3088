"""A check at the start of a broker: does this store support create-if-absent?

The safety of every log rests on it. Some S3 servers accept the condition and ignore it.
"""

import asyncio
import contextlib
from typing import Final

from kafscale.model.errors import (
    ObjectExists,
    ObjectMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from kafscale.objects.store import ObjectStore

CREATORS: Final = 8


async def check_create_if_absent(store: ObjectStore, folder: str, token: str) -> None:
    """Create one key twice and another eight times at once; StoreRefused if two succeed."""
    twice, at_once = f"{folder}/probe-{token}-twice", f"{folder}/probe-{token}-at-once"
    try:
        won = [await _creates(store, twice, number) for number in range(2)]
        rivals = await asyncio.gather(
            *(_creates(store, at_once, number) for number in range(CREATORS))
        )
    except StoreError:
        with contextlib.suppress(StoreError):  # the first error says more
            await store.delete([twice, at_once])
        raise
    await store.delete([twice, at_once])
    if won != [True, False] or sum(rivals) != 1:
        raise StoreRefused(
            "the object store ignores create-if-absent (If-None-Match: *), so two brokers "
            "could overwrite each other's records; use a store that supports conditional writes"
        )


async def _creates(store: ObjectStore, key: str, number: int) -> bool:
    body = b"%d" % number
    try:
        await store.put_new(key, [body])
    except (ObjectExists, StoreUnavailable) as problem:
        # Unknown outcomes happen, and a repeated attempt may meet the first one's object. The
        # object itself tells whose it is.
        try:
            return bytes(await store.read(key)) == body
        except ObjectMissing:
            raise problem from None
    return True
