"""An object store that fails as a test asks.

Here: faults before and after an operation, stalls and delays, by script or by seeded dice.
Next door: the honest adapters (objects/), the dice (testing/clock.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from kafscale.model.buffers import Buffer
from kafscale.model.errors import StoreError, StoreUnavailable
from kafscale.objects.store import ObjectStore, StoredObject
from kafscale.testing.clock import SeededDice

VERBS: Final = frozenset({"put_new", "read", "find", "folders", "delete", "now_ms"})
_T = TypeVar("_T")


class Fault(Enum):
    """What goes wrong, and when."""

    FAIL_BEFORE = auto()  # nothing is done
    FAIL_AFTER = auto()  # it is done, but the answer is lost
    STALL_BEFORE = auto()  # hangs until released, then is done
    STALL_AFTER = auto()  # is done, the answer hangs until released
    DELAY = auto()  # is done late


@dataclass(slots=True)
class Rule:
    """One fault for some operations. `reached` tells the test that it happened."""

    fault: Fault
    verb: str = "*"
    keys: str = "*"  # shell pattern; for find the folder, for delete the first key
    times: int | None = None  # None: until removed
    skip: int = 0  # leave the first ones alone
    chance: float = 1.0
    delay_s: float = 0.0
    error: Callable[[str], StoreError] = StoreUnavailable
    happened: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let every stalled operation go on, and stall no more."""
        self.released.set()


class FaultPlan:
    """Rules in order; the first that applies is used."""

    def __init__(self, dice: SeededDice | None = None) -> None:
        self._dice = dice or SeededDice()
        self.rules: list[Rule] = []

    def add(self, rule: Rule) -> Rule:
        """Append a rule and give it back."""
        if rule.verb != "*" and rule.verb not in VERBS:
            raise ValueError(f"no verb of a store: {rule.verb}")
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules; stalled operations go on."""
        for rule in self.rules:
            rule.release()
        self.rules.clear()

    def choose(self, verb: str, key: str) -> Rule | None:
        """The rule that this operation falls under, counted."""
        for rule in self.rules:
            if rule.verb not in ("*", verb) or not fnmatchcase(key, rule.keys):
                continue
            if rule.times == 0 or (rule.chance < 1.0 and not self._dice.happens(rule.chance)):
                continue
            if rule.skip > 0:
                rule.skip -= 1
                continue
            rule.times = None if rule.times is None else rule.times - 1
            rule.happened += 1
            rule.reached.set()
            return rule
        return None


class FaultyObjectStore:
    """Wraps a store. Every operation is noted in `calls` as (verb, key)."""

    def __init__(self, inner: ObjectStore, plan: FaultPlan) -> None:
        self.inner = inner
        self.plan = plan
        self.calls: list[tuple[str, str]] = []

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """put_new under the plan."""
        await self._run("put_new", key, lambda: self.inner.put_new(key, body))

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Read under the plan."""
        return await self._run("read", key, lambda: self.inner.read(key, start, length))

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """Find under the plan."""
        return await self._run(
            "find", folder, lambda: self.inner.find(folder, after, before, limit)
        )

    async def folders(self, folder: str) -> list[str]:
        """Folders under the plan."""
        return await self._run("folders", folder, lambda: self.inner.folders(folder))

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete under the plan."""
        await self._run("delete", keys[0] if keys else "", lambda: self.inner.delete(keys))

    async def now_ms(self) -> int:
        """now_ms under the plan."""
        return await self._run("now_ms", "", self.inner.now_ms)

    async def aclose(self) -> None:
        """Close the store inside."""
        await self.inner.aclose()

    async def _run(self, verb: str, key: str, deed: Callable[[], Awaitable[_T]]) -> _T:
        self.calls.append((verb, key))
        rule = self.plan.choose(verb, key)
        if rule is None:
            return await deed()
        if rule.fault is Fault.FAIL_BEFORE:
            raise rule.error(f"planned: {verb} {key} was not done")
        if rule.fault is Fault.STALL_BEFORE:
            await rule.released.wait()
        if rule.fault is Fault.DELAY:
            await asyncio.sleep(rule.delay_s)
        result = await deed()
        if rule.fault is Fault.FAIL_AFTER:
            raise rule.error(f"planned: {verb} {key} was done, the answer was lost")
        if rule.fault is Fault.STALL_AFTER:
            await rule.released.wait()
        return result
