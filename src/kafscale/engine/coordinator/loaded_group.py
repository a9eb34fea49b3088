"""One group in a broker's memory: its machine, its timer, what is not saved yet.

Next door: who acts on it (groups.py).
"""

import asyncio
import math
from dataclasses import dataclass, field

from kafscale.groups.events import Rejected, Reply
from kafscale.groups.machine import Group
from kafscale.groups.snapshot import GroupSnapshot
from kafscale.model.errors import NotTheCoordinator


@dataclass(slots=True)
class Held:
    """A group in memory."""

    group_id: str
    machine: Group
    unsaved: GroupSnapshot | None = None
    changed_at: str = ""
    is_lost: bool = False
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)
    timer: asyncio.TimerHandle | None = None
    wakes_s: float = math.inf

    def stop_timer(self) -> None:
        """Let nothing happen by time alone any more."""
        if self.timer is not None:
            self.timer.cancel()

    def turn_away(self) -> None:
        """Those who wait must ask the broker that has the group now."""
        gone = Rejected(NotTheCoordinator("another broker has taken the group"))
        for member in self.machine.roster.by_id.values():
            for call in (member.joining, member.syncing):
                if call is not None:
                    give(Reply(call, gone))


def give(answer: Reply) -> None:
    """Let whoever waits have it."""
    call = answer.call
    assert isinstance(call, asyncio.Future)
    if not call.done():  # whoever waited may have been cancelled
        call.set_result(answer.outcome)
