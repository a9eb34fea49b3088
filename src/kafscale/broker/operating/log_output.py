"""The log lines of a broker: one per event, as JSON or as text.

A line that cannot be written is lost, and nothing else happens: a full disk, or a reader that has
gone, must not end the work that logs.
"""

import logging
import sys
from typing import IO, Any, Literal

import orjson
import structlog
from structlog.tracebacks import ExceptionDictTransformer

from kafscale.model.printable import printable

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class Lenient:
    """An output of text or bytes that never raises."""

    def __init__(self, output: IO[Any]) -> None:
        self._output = output

    def write(self, line: str | bytes) -> None:
        """Write the line, or lose it."""
        try:
            self._output.write(line)
        except (OSError, ValueError):  # ValueError: it has been closed
            return

    def flush(self) -> None:
        """Write what is buffered, or keep it for the next time."""
        try:
            self._output.flush()
        except (OSError, ValueError):
            return


def configure(level: str, form: Literal["json", "text"] | None) -> None:
    """Send all events of `level` and above to standard error."""
    chosen = form or ("text" if sys.stderr.isatty() else "json")
    first: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if chosen == "json":
        last: list[Any] = [
            structlog.processors.ExceptionRenderer(
                ExceptionDictTransformer(show_locals=False)  # they may hold a client's password
            ),
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
        factory: Any = structlog.BytesLoggerFactory(Lenient(sys.stderr.buffer))  # type: ignore[arg-type]
    else:
        last = [
            _make_printable,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                exception_formatter=structlog.dev.RichTracebackFormatter(show_locals=False),
            ),
        ]
        factory = structlog.PrintLoggerFactory(Lenient(sys.stderr))  # type: ignore[arg-type]
    structlog.configure(
        processors=first + last,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


def _to_json(event: dict[str, Any], **_: Any) -> bytes:
    return orjson.dumps(event, default=str)


def _make_printable(_logger: Any, _method: str, event: Any) -> Any:
    """Escape what a terminal would obey: names and details come from clients."""
    return {
        name: printable(value) if isinstance(value, str) and name != "exception" else value
        for name, value in event.items()
    }
