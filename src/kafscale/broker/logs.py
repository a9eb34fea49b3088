"""What the broker writes about itself: one line per event, JSON or for the eye."""

import logging
import sys
from typing import Any, Literal

import orjson
import structlog

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


def configure(level: str, form: Literal["json", "text"] | None) -> None:
    """Send all events of `level` and above to standard error."""
    chosen = form or ("text" if sys.stderr.isatty() else "json")
    first: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if chosen == "json":
        last: list[Any] = [
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
        factory: Any = structlog.BytesLoggerFactory(sys.stderr.buffer)
    else:
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        factory = structlog.PrintLoggerFactory(sys.stderr)
    structlog.configure(
        processors=first + last,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


def _to_json(event: dict[str, Any], **_: Any) -> bytes:
    return orjson.dumps(event, default=str)
