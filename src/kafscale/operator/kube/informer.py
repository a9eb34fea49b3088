"""A copy of all objects of a kind, kept up to date by a watch.

Here: list, then watch from there on; when the server has forgotten what comes next, list again.
Next door: the requests (client.py), the queue of keys that have changed (work_queue.py).
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from kafscale.model.clock import Dice
from kafscale.operator.kube.client import Kube, Object
from kafscale.operator.kube.errors import KubeError
from kafscale.retry import Backoff, RetryPolicy

logger = structlog.get_logger()

Key = tuple[str, str]  # namespace and name

_RETRY: Final = RetryPolicy(first_s=0.2, longest_s=30.0, jitter=0.5)
_SHORTEST_WATCH_S: Final = 300
_WATCH_SPREAD_S: Final = 256


class Informer:
    """`changed` is told the object of every change, as it is now or as it was last."""

    def __init__(
        self,
        kube: Kube,
        kind: str,
        dice: Dice,
        changed: Callable[[Object], None],
        *,
        namespace: str = "",
        selector: str = "",
        restarted: Callable[[str], None] = lambda kind: None,
    ) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self._kube = kube
        self._dice = dice
        self._changed = changed
        self._namespace = namespace
        self._selector = selector
        self._restarted = restarted
        self._objects: dict[Key, Object] = {}

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as it was last seen."""
        return self._objects.get((namespace, name))

    def __iter__(self) -> Iterator[Object]:
        """All objects as they were last seen."""
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        """Count them."""
        return len(self._objects)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        backoff = Backoff(_RETRY, self._dice)
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                spread_s = self._dice.token(1)[0] % _WATCH_SPREAD_S
                async for kind, found in self._kube.watch(
                    self.kind,
                    version,
                    self._namespace,
                    self._selector,
                    _SHORTEST_WATCH_S + spread_s,
                ):
                    version = found["metadata"]["resourceVersion"]
                    backoff.restart()
                    self._take(kind, found)
            except KubeError as problem:
                if problem.is_gone or problem.status == 504:
                    version = ""
                self._restarted(self.kind)
                pause_s = problem.retry_after_s or backoff.next_s()
                logger.info("watch_restarts", kind=self.kind, error=str(problem), pause_s=pause_s)
                await asyncio.sleep(pause_s)

    async def _list(self) -> str:
        listed = await self._kube.list_all(self.kind, self._namespace, self._selector)
        before = self._objects
        self._objects = {_key(item): item for item in listed.items}
        for key, item in self._objects.items():
            earlier = before.pop(key, None)
            if earlier is None or _version(earlier) != _version(item):
                self._changed(item)
        for item in before.values():
            self._changed(item)
        self.synced.set()
        return listed.version

    def _take(self, kind: str, found: Object) -> None:
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            self._objects.pop(_key(found), None)
        else:
            self._objects[_key(found)] = found
        self._changed(found)


def _key(item: Object) -> Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _version(item: Object) -> str:
    version: str = item["metadata"]["resourceVersion"]
    return version
