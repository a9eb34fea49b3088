"""Ending what a deleted topic has written to, before its name may be used again (rule 25).

Here: which logs and lanes of a topic end. A broker that has not heard of the deletion still
appends to the log, and a client that knows only the name would be told that its record is stored.
So the caller that wants the name closes the logs themselves, whatever their owners know: logs of
the topic's own by last manifests and an object at the tail, lanes of shared logs by seals.
Next door: one log of its own (protocol/end_of_log.py), seals of topics that move (seals.py).
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kafscale.log.formats import places
from kafscale.log.moves import seals
from kafscale.log.protocol import commits, end_of_log, survey
from kafscale.log.writer.job_appender import JobAppender
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import NotTheOwner
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore

_PATIENCE_S: Final = 2.0  # how long owners of shared logs have to seal the lanes themselves
_PAUSE_S: Final = 0.05
_INTERVAL_BYTES: Final = 4096


class Tools(NamedTuple):
    """What the functions here need to read and write logs."""

    store: ObjectStore
    clock: Clock
    dice: Dice


async def end_topic(tools: Tools, gone: TopicDescriptor) -> None:
    """Make sure that no writer can commit anything more to a deleted topic."""
    await survey.await_limited(_endings(tools, gone))


def has_lanes(gone: TopicDescriptor) -> bool:
    """Whether a topic has anything in logs that go on without it."""
    return bool(gone.shared or (gone.moving and gone.moving.shared))


def _endings(tools: Tools, gone: TopicDescriptor) -> Iterator[Coroutine[Any, Any, None]]:
    homes = [gone] if gone.moving is None else [gone, gone.after_move()]
    for home in homes:
        for folder in places.own_folders(home):
            yield end_of_log.end_log(tools.store, folder)
        if home.layout == "shared":
            for folder in places.log_folders(home):
                yield end_lanes(tools, folder, sorted(places.lanes_in(home, folder)))


# -- lanes of logs that go on ------------------------------------------------------------------


async def end_lanes(tools: Tools, folder: str, lanes: Sequence[int]) -> None:
    """Wait until the owner has sealed these lanes of a log; if it does not, seal them here."""
    store, clock, dice = tools
    log = JobAppender(
        store, folder, clock, dice, author=end_of_log.AUTHOR, index_interval_bytes=_INTERVAL_BYTES
    )
    await log.open()
    begun_s = clock.elapsed_s()
    while unsealed := [lane for lane in lanes if not log.is_sealed(lane)]:
        if clock.elapsed_s() - begun_s < _PATIENCE_S:
            await asyncio.sleep(_PAUSE_S)
        else:
            try:
                await log.append(
                    [seals.for_appender(log, lane, clock.now_ms()) for lane in unsealed]
                )
                continue
            except (commits.LostRace, NotTheOwner):
                pass  # another writer has written or sealed: read the log again
        await log.follow()
