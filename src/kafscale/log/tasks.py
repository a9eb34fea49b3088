"""Background tasks that nobody loses: every task is held, its failure logged, its end awaited."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger()


class Tasks:
    """A set of running tasks with one owner."""

    def __init__(self) -> None:
        """Begin with none."""
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start `work` now; a failure is logged under `name`."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("task_failed", task=task.get_name(), error=repr(problem), exc_info=problem)

    async def aclose(self) -> None:
        """Cancel what still runs and wait for it."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
