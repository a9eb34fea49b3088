"""Topics: the list, settings, partitions, records, objects in the bucket, snapshots."""

from typing import Final

from kafscale.console.call import PageHandler
from kafscale.console.pages.topics import configs, objects, partitions, records, snapshots, topics

HANDLERS: Final[dict[str, PageHandler]] = {
    **configs.HANDLERS,
    **objects.HANDLERS,
    **partitions.HANDLERS,
    **records.HANDLERS,
    **snapshots.HANDLERS,
    **topics.HANDLERS,
}
