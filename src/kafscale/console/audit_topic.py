"""A copy of the activity in a topic, for people who want to keep it longer than the console runs.

Here: what waits to be sent, bounded, and sending it again until a broker takes it. The log has
every line, whatever becomes of the copy. Next door: what is noted (activity.py).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import structlog

from kafscale.admin.records.sending import PlacedRecord, SentRecord
from kafscale.console.answers.shapes import ActivityRow

logger = structlog.get_logger()

MOST_WAITING: Final = 1000
_AGAIN_S: Final = 5.0
Send = Callable[[Sequence[PlacedRecord]], Awaitable[list[SentRecord]]]


class AuditTopic:
    """Sends rows to a topic, in their order."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[PlacedRecord] = deque()
        self._some = asyncio.Event()
        self.lost = 0  # the oldest, because brokers took none for long

    def put(self, row: ActivityRow) -> None:
        """Send a row soon."""
        self._waiting.append(PlacedRecord(None, None, msgspec.json.encode(row), []))
        self._bound()
        self._some.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            problem = await self._send_all()
            if problem is not None:
                waiting, lost = len(self._waiting), self.lost
                logger.warning("console_audit_failed", error=problem, waiting=waiting, lost=lost)
                await asyncio.sleep(_AGAIN_S)
                self._some.set()

    async def _send_all(self) -> str | None:
        """Send what waits; what was not taken waits on. Gives the reason."""
        batch = list(self._waiting)
        self._waiting.clear()
        sent = await self._send(batch)
        refused = [one for one, result in zip(batch, sent, strict=True) if result.error is not None]
        self._waiting.extendleft(reversed(refused))
        self._bound()
        return next((result.error for result in sent if result.error is not None), None)

    def _bound(self) -> None:
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.lost += 1
