"""Background tasks: each is referenced until it ends, its failure logged, its end awaited."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger()

_T = TypeVar("_T")


class Tasks:
    """A set of running tasks with one owner."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], None] = {}  # in the order they began

    def __len__(self) -> int:
        """Count the tasks that run."""
        return len(self._running)

    def spawn(
        self, work: Coroutine[Any, Any, _T], name: str, *, awaited: bool = False
    ) -> asyncio.Task[_T]:
        """Start `work` now; a failure is logged under `name`.

        `awaited`: the caller awaits the task and reports its failure instead.
        """
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended_awaited if awaited else self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("task_failed", task=task.get_name(), error=repr(problem), exc_info=problem)

    def _ended_awaited(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled():
            task.exception()  # retrieved, in case every waiter has given up

    async def wait_for_one(self) -> None:
        """Wait until one of the running tasks has ended. Cancelling this cancels none of them."""
        if self._running:
            await asyncio.wait(tuple(self._running), return_when=asyncio.FIRST_COMPLETED)

    async def aclose(self) -> None:
        """Cancel what still runs and wait for it."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
