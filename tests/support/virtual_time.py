"""Tests whose event loop has virtual time: sleeping costs nothing, and timers fire in order.

Here: the simulated loop as pytest's runner needs it; it fails a test in which an error went unseen.
A room of tests uses it by this hook in its conftest.py:

    def pytest_asyncio_loop_factories(item: pytest.Item) -> LoopFactories:
        return virtual_unless_marked(item)

Next door: the loop itself (kafscale/testing/simulated/loop.py). Never here: sockets; a listener
opens, and no client can come. Tests with clients bear the mark `real_time`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

import pytest

from kafscale.model.clock import Clock
from kafscale.system import SystemClock
from kafscale.testing.simulated.clock import SimulatedClock
from kafscale.testing.simulated.loop import SimulatedLoop, SimulatedProcess, current_process_of

LoopFactories = dict[str, Callable[[], asyncio.AbstractEventLoop]]
_LONGEST_S = 1e6
_MOST_ROUNDS = 1 << 40


class UnseenFailure(Exception):
    """A callback or a task ended in an error that no code looked at."""


def _is_unseen(task: asyncio.Task[Any]) -> bool:
    """Whether a task failed and no code asked for its error: asyncio's own mark of that."""
    return task.done() and bool(task._log_traceback)  # type: ignore[attr-defined]


class VirtualTimeLoop(SimulatedLoop):
    """One process, whose callbacks take no time."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.longest_s = _LONGEST_S
        self.most_rounds = _MOST_ROUNDS
        self.network = _NoClients()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Queue, whatever context pytest brings."""
        return super().call_soon(callback, *args, context=self._ours(context))

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Queue for a time, whatever context pytest brings."""
        return super().call_at(when, callback, *args, context=self._ours(context))

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[Any]:
        """Make a task, whatever context pytest brings."""
        return super().create_task(coro, name=name, context=self._ours(context))

    def _ours(self, context: Context | None) -> Context:
        context = copy_context() if context is None else context
        if current_process_of(context) is not self.world:
            context.run(self.world.enter)
        return context

    def set_debug(self, enabled: bool) -> None:
        """Never; see get_debug."""

    def close(self) -> None:
        """Fail the test if a callback or a task ended in an error that no code looked at."""
        unseen = [task for process in self._processes for task in process.tasks if _is_unseen(task)]
        failures = [
            *self.failures,
            *(f"{task.get_name()}: {task.exception()!r}" for task in unseen),
        ]
        super().close()
        if failures:
            raise UnseenFailure("\n".join(failures))

    async def shutdown_asyncgens(self) -> None:
        """There are none of its own."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is one thread."""


class _NoClients:
    """A network on which every listener gets a port and no client."""

    def __init__(self) -> None:
        self._next_port = 40_000

    def listen(
        self, process: SimulatedProcess, factory: Callable[[], Any], host: str, port: int
    ) -> "_Server":
        self._next_port += 1
        return _Server((host, port or self._next_port))


class _Server:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setsockopt(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


def virtual_unless_marked(item: pytest.Item) -> LoopFactories:
    """The loop for one test: virtual time, or real time if the test is marked so."""
    if item.get_closest_marker("real_time") is not None:
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualTimeLoop}


def clock_of_the_loop() -> Clock:
    """The clock that goes as the running loop goes."""
    loop = asyncio.get_running_loop()
    return SimulatedClock(loop.world) if isinstance(loop, SimulatedLoop) else SystemClock()
