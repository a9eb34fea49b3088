"""Whether clients should be sent to this broker: a list of named checks.

Here: the list, and the checks every broker has. Whoever knows another reason adds it.
Next door: the page that shows it (ops_http.py).
Never here: whether the process lives; a sick store is no reason to be restarted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.metadata.instrumented import InstrumentedMetadata
from kafscale.model.errors import MetadataUnavailable

# Gives the reason why not, in words for a person; None when all is well.
Check = Callable[[], Awaitable[str | None]]

FRESH_S: Final = 5.0  # an answer this new needs no asking again
PATIENCE_S: Final = 2.0  # for the answer to a question; probes of an orchestrator wait little
UNREACHABLE_S: Final = 10.0  # shorter silences pass unnoticed: brokers can do without for a while
_ANY_KEY: Final = "/kafscale/ready"  # never written


class Readiness:
    """The checks, in the order they were added."""

    def __init__(self) -> None:
        """Ready: nothing is known to the contrary."""
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Ask this one, too."""
        if name in self._checks:
            raise ValueError(f"there is a check {name} already")
        self._checks[name] = check

    async def ask(self) -> dict[str, str | None]:
        """What each check says now."""
        said = await asyncio.gather(*(check() for check in self._checks.values()))
        return dict(zip(self._checks, said, strict=True))


def store_check(health: StoreGate) -> Check:
    """Not ready while produce requests are refused for the store's sake."""

    async def check() -> str | None:
        return "the object store is unavailable" if health.is_unavailable() else None

    return check


def fleet_check(fleet: Membership) -> Check:
    """Not ready while the broker has no part in the fleet, or is about to give it up."""

    async def check() -> str | None:
        return "; ".join(fleet.why_not_ready()) or None

    return check


def listeners_check(why_not_ready: Callable[[], list[str]]) -> Check:
    """Not ready while a listener accepts no connections."""

    async def check() -> str | None:
        return "; ".join(why_not_ready()) or None

    return check


def metadata_check(store: InstrumentedMetadata) -> Check:
    """Not ready when the metadata store has not answered for a while, though asked."""

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
