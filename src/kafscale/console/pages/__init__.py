"""What the API answers, one file per resource.

Here: `topics` (what a topic is and holds), `groups` (consumer groups), `pipeline` (tables, jobs and
SQL), `cluster` (brokers, users, the store, cost, numbers over time), and the first page on top.
"""

from typing import Final

from kafscale.console.call import PageHandler
from kafscale.console.pages import activity, cluster, groups, overview, pipeline, topics

HANDLERS: Final[dict[str, PageHandler]] = {
    **activity.HANDLERS,
    **cluster.HANDLERS,
    **groups.HANDLERS,
    **overview.HANDLERS,
    **pipeline.HANDLERS,
    **topics.HANDLERS,
}
