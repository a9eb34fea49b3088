"""The brokers, asked by Kafka's protocol, without holding up the event loop.

Here: one client, questions in threads. Next door: the questions (admin/brokers), what is asked
again and again (watch/watcher.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from kafscale.admin.brokers import client
from kafscale.admin.brokers.client import KafkaAdmin

T = TypeVar("T")
P = ParamSpec("P")
_QUESTIONS_AT_ONCE: Final = 8


class Cluster:
    """A connection to the brokers, made at the first question."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str]) -> None:
        self.bootstrap = bootstrap
        self._settings = client.client_settings(bootstrap, "kafscale-console", properties)
        self._admin: KafkaAdmin | None = None
        self._threads = ThreadPoolExecutor(_QUESTIONS_AT_ONCE, "kafka")

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a client of these brokers."""
        return dict(self._settings)

    async def ask(
        self,
        question: Callable[Concatenate[KafkaAdmin, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Put a question of the room `admin`. Raises AdminError or ApiRefusal."""
        if self._admin is None:
            self._admin = client.open_admin(self.settings)
        admin = self._admin
        return await self.run(lambda: client.put_question(lambda: question(admin, *args, **kwargs)))

    async def run(self, work: Callable[[], T]) -> T:
        """Do something that waits for brokers, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Wait for no answer any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
