"""Looking for records beyond the end that we know.

Here: what a reader asks for that is not there. A writer that we do not know of may have come
between: a broker that had lost the log without noticing, or a job. Once a second at most, or one
client that asks for the impossible could keep the store busy.
Next door: what becomes of the log then (log.py).
"""

from typing import Final

from kafscale.log.formats import keys
from kafscale.log.writer.log import Log
from kafscale.model.errors import NotTheOwner

EVERY_S: Final = 1.0


def is_due(log: Log) -> bool:
    """Whether `catch_up` would look, or wait for the look that is under way."""
    return log.clock.elapsed_s() - log.looked_s >= EVERY_S


async def catch_up(log: Log) -> None:
    """Take up what the bucket has after our tail, if it has anything.

    Whoever comes while somebody looks waits for it: until a look has come to its end nobody may
    be told that there is nothing. NotTheOwner: there is something, but a flush under way has to
    meet it first.
    """
    async with log.looking:
        if not is_due(log):
            return
        if not await _look(log):
            raise NotTheOwner(f"{log.folder}: somebody else has written what we do not know yet")
        log.looked_s = log.clock.elapsed_s()


async def _look(log: Log) -> bool:
    """False if there is something that could not be taken up now."""
    end, generation = log.end, log.manifest.generation
    found = await log.store.find(
        log.folder,
        after=keys.segments_from(log.folder, end),
        before=keys.segments_before(log.folder),
    )
    names = [keys.parse_segment(row.key) for row in found]
    goes_on = any(name and (name.base, name.generation) == (end, None) for name in names)
    if goes_on and log.end == end:
        await log.reopen("the log goes on beyond our tail")
        return log.end != end
    return not await log.adopt_foreign() or log.manifest.generation != generation
