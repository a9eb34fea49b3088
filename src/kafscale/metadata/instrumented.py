"""A metadata store that reports how long everything took, and remembers when it last answered.

Next door: what is made of the reports (engine/metrics/series.py), who asks whether it answers
(broker/operating/readiness.py). Leases are renewed by the store itself; only taking one is seen
here.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from kafscale.metadata.lease import Lease
from kafscale.metadata.store import Compare, Entry, MetadataStore, Put, Remove, Watch
from kafscale.model.clock import Clock
from kafscale.model.errors import MetadataConflict, MetadataUnavailable

# operation (get, find, commit, lease), seconds, result (success, conflict, error)
ObserveMetadata = Callable[[str, float, str], None]

_T = TypeVar("_T")


class InstrumentedMetadata:
    """Passes everything through. A conflict is an answer; a cancelled call says nothing."""

    def __init__(self, inner: MetadataStore, observe: ObserveMetadata, clock: Clock) -> None:
        self._inner = inner
        self._observe = observe
        self._clock = clock
        self._answered_s = clock.elapsed_s()

    def silent_s(self) -> float:
        """How long ago the last answer came."""
        return self._clock.elapsed_s() - self._answered_s

    async def get(self, key: str) -> Entry | None:
        """Report as get."""
        return await self._timed("get", self._inner.get(key))

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        """Report as find."""
        return await self._timed("find", self._inner.find(prefix, after=after, limit=limit))

    async def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare] = ()) -> int:
        """Report as commit."""
        return await self._timed("commit", self._inner.commit(writes, guards))

    async def lease(self, ttl_s: float) -> Lease:
        """Report as lease."""
        return await self._timed("lease", self._inner.lease(ttl_s))

    def watch(self, prefix: str) -> Watch:
        """Not reported: a watch has no end."""
        return self._inner.watch(prefix)

    async def aclose(self) -> None:
        """Close the store inside."""
        await self._inner.aclose()

    async def _timed(self, operation: str, call: Awaitable[_T]) -> _T:
        began_s = self._clock.elapsed_s()
        result = "success"
        try:
            answer = await call
        except MetadataConflict:
            result = "conflict"
            raise
        except MetadataUnavailable:
            result = "error"
            raise
        except BaseException:
            result = ""
            raise
        finally:
            now_s = self._clock.elapsed_s()
            if result in ("success", "conflict"):
                self._answered_s = now_s
            if result:
                self._observe(operation, now_s - began_s, result)
        return answer
