"""What was done in this console."""

from typing import Final

from kafscale.console.answers.shapes import ActivityList
from kafscale.console.call import ApiCall, Handlers


async def list_activity(call: ApiCall) -> ActivityList:
    """Give the newest events."""
    return ActivityList(items=call.services.activity.rows())


HANDLERS: Final[Handlers] = {"list_activity": list_activity}
