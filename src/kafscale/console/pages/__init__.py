"""What the API answers, one file per resource."""

from typing import Final

from kafscale.console.call import PageHandler
from kafscale.console.pages import (
    activity,
    brokers,
    configs,
    cost,
    groups,
    jobs,
    objects,
    overview,
    partitions,
    pipeline,
    records,
    resets,
    series,
    snapshots,
    sql,
    store,
    topics,
    users,
)

HANDLERS: Final[dict[str, PageHandler]] = {
    **activity.HANDLERS,
    **brokers.HANDLERS,
    **configs.HANDLERS,
    **cost.HANDLERS,
    **groups.HANDLERS,
    **jobs.HANDLERS,
    **objects.HANDLERS,
    **overview.HANDLERS,
    **partitions.HANDLERS,
    **pipeline.HANDLERS,
    **records.HANDLERS,
    **resets.HANDLERS,
    **series.HANDLERS,
    **snapshots.HANDLERS,
    **sql.HANDLERS,
    **store.HANDLERS,
    **topics.HANDLERS,
    **users.HANDLERS,
}
