"""Snapshots of topics: listing, taking, releasing."""

import asyncio
from typing import Final

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.store_shapes import SnapshotList, SnapshotRow
from kafscale.console.call import ApiCall, Handlers, Services, SnapshotPort
from kafscale.console.pages.topics.topics import check_typed


async def list_snapshots(call: ApiCall) -> SnapshotList:
    """Give all snapshots."""
    port = call.services.snapshots
    if port is None:
        return SnapshotList(items=[], unknown={"items": call.services.no_bucket})
    return SnapshotList(items=await asyncio.to_thread(port.find_all))


async def take_snapshot(call: ApiCall) -> SnapshotRow:
    """Take a snapshot."""
    port = _port(call.services)
    return await asyncio.to_thread(port.take, call.body)


async def release_snapshot(call: ApiCall) -> None:
    """Give a snapshot up, whose name was typed."""
    port = _port(call.services)
    check_typed(call.body, call.query.name)
    await asyncio.to_thread(port.release, call.query.name)


def _port(services: Services) -> SnapshotPort:
    if services.snapshots is None:
        raise ApiRefusal("no_bucket", services.no_bucket)
    return services.snapshots


HANDLERS: Final[Handlers] = {
    "list_snapshots": list_snapshots,
    "take_snapshot": take_snapshot,
    "release_snapshot": release_snapshot,
}
