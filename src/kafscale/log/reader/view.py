"""What a reader goes by: the manifest of an open log, and when it was known to be the newest.

Here: rule 26. An idle log is not asked for newer manifests. So what a reader gets from the bucket
may have been replaced, deleted, and written anew by a writer that slept; nothing in its name tells.
Next door: the ranges that are read (blocks.py), how the log looks for newer ones (writer/log.py).
"""

from typing import NamedTuple

from kafscale.log.writer.log import Log
from kafscale.model.clock import Moment, age_s, moment
from kafscale.model.errors import ObjectMissing


class LogView(NamedTuple):
    """A log as a reader saw it at one moment."""

    log: Log
    generation: int
    seen: Moment  # then, or later, that generation was the newest

    @property
    def folder(self) -> str:
        """Where the log's objects lie."""
        return self.log.folder

    async def require_newest(self, key: str) -> None:
        """Judge an object that was read by this view, after the read: ObjectMissing if too late.

        For a grace period after a LIST nothing is deleted that its newest manifest names.
        """
        log = self.log
        if age_s(log.clock, self.seen) <= log.settings.grace_s / 2:
            return
        if not await log.was_newest(self.generation, moment(log.clock)):
            raise ObjectMissing(f"{key}: a newer manifest may have replaced it")


def view_of(log: Log) -> LogView:
    """The log as it is known now; good for what is looked up before the next await."""
    return LogView(log, log.committed.manifest.generation, log.committed.seen)
