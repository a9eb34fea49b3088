"""Whether clients should be sent to this broker: a list of named checks.

Here: the list, and the checks that every broker has.
Next door: the page that shows it (gateways/ops_http.py).
Never here: whether the process lives; a sick store is no reason to be restarted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.metadata.instrumented import InstrumentedMetadata
from kafscale.model.errors import MetadataUnavailable

# Gives the reason why the broker is not ready, as a sentence; None if it is.
Check = Callable[[], Awaitable[str | None]]

FRESH_S: Final = 5.0  # after an answer this new, the store is not asked again
PATIENCE_S: Final = 2.0  # for one answer; an orchestrator's probe does not wait long
UNREACHABLE_S: Final = 10.0  # a shorter silence does not count: a broker can do without for a while
_ANY_KEY: Final = "/kafscale/ready"  # never written


class Readiness:
    """The checks, in the order they were added."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add a check; its name must be new."""
        if name in self._checks:
            raise ValueError(f"there is a check {name} already")
        self._checks[name] = check

    async def ask(self) -> dict[str, str | None]:
        """Run every check; gives the reason why not ready, or None, by name."""
        said = await asyncio.gather(*(check() for check in self._checks.values()))
        return dict(zip(self._checks, said, strict=True))


def store_check(health: StoreGate) -> Check:
    """Not ready while the store takes no writes, or is sick and produce requests are refused."""

    async def check() -> str | None:
        problem = health.why_not_writable()
        if problem is not None:
            return f"the object store cannot be written: {problem}"
        return "the object store is unavailable" if health.is_unavailable() else None

    return check


def fleet_check(fleet: Membership) -> Check:
    """Not ready while the broker is no member of the fleet, or is about to leave it."""

    async def check() -> str | None:
        return "; ".join(fleet.why_not_ready()) or None

    return check


def listeners_check(why_not_ready: Callable[[], list[str]]) -> Check:
    """Not ready while a listener accepts no connections."""

    async def check() -> str | None:
        return "; ".join(why_not_ready()) or None

    return check


def metadata_check(store: InstrumentedMetadata) -> Check:
    """Not ready when the metadata store has not answered for a while, although it was asked."""

    async def check() -> str | None:
        if store.silent_s() < FRESH_S:
            return None
        try:
            async with asyncio.timeout(PATIENCE_S):
                await store.get(_ANY_KEY)
        except (MetadataUnavailable, TimeoutError):
            silent_s = store.silent_s()
            if silent_s >= UNREACHABLE_S:
                return f"the metadata store has not answered for {silent_s:.0f} s"
        return None

    return check
