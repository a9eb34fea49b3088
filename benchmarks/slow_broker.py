"""A broker whose store takes its time over every PUT: python slow_broker.py MILLISECONDS serve.

In this room: a wrapper around the store the settings choose, and nothing else.
Next door: measuring it (slow_store.py).
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from kafscale.broker import main as broker
from kafscale.cli.main import main
from kafscale.model.buffers import Buffer
from kafscale.objects.store import ObjectStore
from kafscale.settings.stores import open_store


class SlowStore:
    """What a store has, with a pause before each put_new, as a round trip to a bucket would be."""

    def __init__(self, store: ObjectStore, put_s: float) -> None:
        self._store, self._put_s = store, put_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        await asyncio.sleep(self._put_s)
        await self._store.put_new(key, body)


if __name__ == "__main__":
    put_s = int(sys.argv.pop(1)) / 1000
    broker.open_store = lambda config: SlowStore(open_store(config), put_s)  # type: ignore
    sys.exit(main())
