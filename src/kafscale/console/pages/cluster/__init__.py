"""The whole cluster: brokers, users, the object store, cost, numbers over time."""

from typing import Final

from kafscale.console.call import PageHandler
from kafscale.console.pages.cluster import brokers, cost, series, store, users

HANDLERS: Final[dict[str, PageHandler]] = {
    **brokers.HANDLERS,
    **cost.HANDLERS,
    **series.HANDLERS,
    **store.HANDLERS,
    **users.HANDLERS,
}
