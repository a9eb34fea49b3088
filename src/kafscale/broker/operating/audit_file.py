"""The file of the audit log: lines of JSON, in files of limited size.

Here: a thread that writes, so that a slow disk holds up no client. What cannot be written is
counted, and the broker goes on.
Next door: what a line holds (gateways/audit_log.py).
"""

import contextlib
import logging
import os
import queue
from io import TextIOWrapper
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from typing import Any, Final

import orjson
import structlog

logger = structlog.get_logger()

_MOST_WAITING: Final = 10_000  # lines that the disk has not taken
_TELL_EVERY: Final = 1000  # lost lines


class AuditFile:
    """Takes lines; the file is turned over when it is full, and the oldest is deleted."""

    def __init__(self, path: str, most_bytes: int, most_files: int) -> None:
        """Open the file, or raise OSError."""
        self.lost = 0
        waiting: queue.Queue[Any] = queue.Queue(_MOST_WAITING)
        handler = _PrivateFile(path, maxBytes=most_bytes, backupCount=most_files - 1)
        handler.handleError = self._lose  # type: ignore[method-assign]
        entrance = QueueHandler(waiting)
        entrance.handleError = self._lose  # type: ignore[method-assign]
        self._file = handler
        self._listener = QueueListener(waiting, handler)
        self._logger = logging.Logger("kafscale.audit", logging.INFO)
        self._logger.addHandler(entrance)
        self._listener.start()

    def write(self, fields: dict[str, Any]) -> None:
        """Hand a line to the thread, or lose it."""
        self._logger.info("%s", orjson.dumps(fields, default=str).decode())

    def close(self) -> None:
        """Write what waits."""
        self._listener.stop()
        with contextlib.suppress(OSError):  # the disk is full: these lines are counted already
            self._file.close()

    def _lose(self, record: logging.LogRecord) -> None:
        self.lost += 1
        if self.lost % _TELL_EVERY == 1:
            logger.warning("audit_lines_lost", count=self.lost)


class _PrivateFile(RotatingFileHandler):
    """A file that its owner alone may read: it says who did what from where."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
