"""What was done in this console and what was refused: the newest in memory, all as log lines.

Next door: a copy in a topic (audit_topic.py).

Never here: keys, values or passwords.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import structlog

from kafscale.console.answers.shapes import ActivityRow
from kafscale.model.clock import Clock

logger = structlog.get_logger()
_KEPT: Final = 1000
_LONGEST: Final = 300


class ActivityLog:
    """The newest thousand events."""

    def __init__(self, clock: Clock, copy: Callable[[ActivityRow], None] | None = None) -> None:
        """`copy`: takes every row, too."""
        self._clock = clock
        self._copy = copy
        self._rows: deque[ActivityRow] = deque(maxlen=_KEPT)

    def note(
        self, user: str, address: str, action: str, resource: str, outcome: str, request_id: str
    ) -> None:
        """Take down an event."""
        row = ActivityRow(
            at_ms=self._clock.now_ms(),
            user=user[:_LONGEST],
            address=address,
            action=action,
            resource=resource[:_LONGEST],
            outcome=outcome,
            request_id=request_id,
        )
        self._rows.append(row)
        if self._copy is not None:
            self._copy(row)
        logger.info(
            "console_action",
            user=row.user,
            address=address,
            action=action,
            resource=row.resource,
            outcome=outcome,
            request_id=request_id,
        )

    def rows(self) -> list[ActivityRow]:
        """All of them, the newest first."""
        return list(reversed(self._rows))
