"""Log lines about what clients do wrong: a few per client and minute; the rest is counted.

Here: which of these lines an operator sees, so that no client can fill the log. At level debug
every line is logged.
Next door: how many lines a client has (line_budget.py), what is wrong with a connection
(connections.py) or a request (kafka/calls/client_errors.py), who did what (audit_log.py).
"""

from typing import Final

import structlog

from kafscale.gateways.line_budget import LineBudget
from kafscale.model.clock import Clock

logger = structlog.get_logger()

LINES_PER_WINDOW: Final = 10


class ClientLog:
    """The lines of all clients of a broker; a client is an address."""

    def __init__(self, clock: Clock) -> None:
        """`clock` says how old a window is."""
        self._budget = LineBudget(clock, LINES_PER_WINDOW, _tell_left_out)

    def write(self, event: str, peer: str, reason: str, **facts: object) -> None:
        """Log a line, or count it if this client has had its lines."""
        log = logger.info if self._budget.take(peer) else logger.debug
        log(event, peer=peer, reason=reason, **facts)

    def end_windows(self) -> None:
        """Tell counts of windows that are over; called now and then."""
        self._budget.end_windows()

    def aclose(self) -> None:
        """Tell what was left out; no more lines come."""
        self._budget.aclose()


def _tell_left_out(peer: str, count: int) -> None:
    logger.info("lines_left_out", peer=peer, count=count)
