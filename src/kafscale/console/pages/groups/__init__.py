"""Consumer groups: the list, one group, moving its offsets."""

from typing import Final

from kafscale.console.call import PageHandler
from kafscale.console.pages.groups import groups, resets

HANDLERS: Final[dict[str, PageHandler]] = {
    **groups.HANDLERS,
    **resets.HANDLERS,
}
