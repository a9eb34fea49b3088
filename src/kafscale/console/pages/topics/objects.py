"""The objects behind a topic, down to single batches."""

from typing import Final

from kafscale.admin.bucket import topic_lookup
from kafscale.admin.bucket.object_view import NotOurs, view_object
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.store_shapes import (
    BatchRow,
    IndexEntry,
    LaneRow,
    ObjectList,
    ObjectRow,
    ObjectView,
)
from kafscale.console.call import ApiCall, Handlers
from kafscale.console.lists import cut
from kafscale.log.formats import keys, places
from kafscale.model.errors import BadBatch, CorruptObject, ObjectMissing, StoreRefused
from kafscale.objects.store import StoredObject


async def list_objects(call: ApiCall) -> ObjectList:
    """Give the objects of one log of a topic, the newest first."""
    bucket = call.services.need_bucket()
    descriptor = await bucket.topic(call.topic)
    folders = {
        str(topic_lookup.log_name(descriptor, folder)): folder
        for folder in places.log_folders(descriptor)
    }
    name = call.query.log or next(iter(folders), "")
    if name not in folders:
        raise ApiRefusal("invalid", f"the topic has no log {name!r}", field="log")
    found = await bucket.survey(folders[name])
    rows = [
        ObjectRow(
            kind=piece.kind,
            key=piece.key,
            first=str(piece.base),
            last=str(piece.end - 1),
            records=piece.records,
            bytes=piece.size,
            written_ms=piece.modified_ms,
            lanes=len(piece.spans),
        )
        for piece in reversed(found.pieces)
    ]
    part = cut(rows, call.query.after, call.query.limit)
    return ObjectList(
        logs=list(folders),
        log=name,
        layout=descriptor.layout,
        items=part.items,
        after=part.after,
        total=part.total,
        bytes=sum(row.bytes for row in rows),
        leftovers=len(found.leftovers),
        leftover_bytes=sum(row.size for row in found.leftovers),
        held_until_ms=_held_until(found.leftovers),
        problems=found.problems,
        as_of_ms=call.services.clock.now_ms(),
    )


def _held_until(leftovers: list[StoredObject]) -> int | None:
    """Until when snapshots hold replaced objects back; a pin does not know its snapshot's name."""
    pins = [keys.parse_pin(row.key) for row in leftovers]
    return max((pin.expires_ms for pin in pins if pin is not None), default=None)


async def get_object(call: ApiCall) -> ObjectView:
    """Give what is in an object of the namespace."""
    bucket, key = call.services.need_bucket(), call.query.key
    if not key.startswith(f"{bucket.namespace}/") or ".." in key.split("/"):
        raise ApiRefusal("unknown_object", "there is no such object in this namespace")
    try:
        view = await view_object(bucket.store, key)
    except (ObjectMissing, StoreRefused, NotOurs) as bad:
        raise ApiRefusal("unknown_object", f"no object of Kafscale under that key: {bad}") from bad
    except (CorruptObject, BadBatch) as bad:
        raise ApiRefusal("refused", f"the object is broken: {bad}") from bad
    part = cut(view.batches, call.query.after, call.query.limit)
    return ObjectView(
        key=key,
        kind=view.kind,
        bytes=view.bytes,
        facts=view.facts,
        lanes=[LaneRow(**row._asdict()) for row in view.lanes],
        batches=[BatchRow(**row._asdict()) for row in part.items],
        batches_total=part.total,
        after=part.after,
        index=[IndexEntry(**row._asdict()) for row in view.index[:1000]],
        document=view.document,
    )


HANDLERS: Final[Handlers] = {"list_objects": list_objects, "get_object": get_object}
