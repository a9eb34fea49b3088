"""The control port: clients watch, list, create and delete objects.

Here: the APIs of this port, and the watches of one connection. A watch begins with all objects of
its kind. Then it is sent what has changed, at once; changes that come right behind gather for the
next message.
Next door: the objects (view.py), changes that clients make (topics.py).
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from kafscale.gateways.connection import Connection
from kafscale.gateways.fluvio.context import FluvioContext
from kafscale.gateways.fluvio.control import topics
from kafscale.gateways.fluvio.control.view import LABELS, ClusterView, Views, topic_of
from kafscale.gateways.fluvio.session import FluvioApi, FluvioSession
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.tasks import Tasks
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.frame import FluvioRequest
from kafscale.wire.fluvio.messages import api_versions, change_objects, list_objects, watch
from kafscale.wire.fluvio.messages.list_objects import ListRequest, ObjectList
from kafscale.wire.fluvio.messages.objects_envelope import VERSIONS, ObjectEnvelope, sealed
from kafscale.wire.fluvio.messages.watch import DELETE, UPDATE, ObjectChange, WatchUpdates

_PLATFORM_VERSION: Final = (
    "0.18.1"  # of the Fluvio that this port is like: clients want 0.9 or later
)
_MOST_WATCHES: Final = 100  # of one connection; a client has six
_PAUSE_S: Final = 0.02  # between two messages: changes gather meanwhile


class ObjectWatch:
    """One watch of a connection: what its client knows."""

    __slots__ = ("label", "request", "seen")

    def __init__(self, request: FluvioRequest, label: str) -> None:
        self.request = request
        self.label = label
        self.seen: ClusterView | None = None


class ControlSession(FluvioSession):
    """A connection of the control port."""

    platform_version = _PLATFORM_VERSION

    def __init__(
        self, connection: Connection, context: FluvioContext, tasks: Tasks, views: Views
    ) -> None:
        super().__init__(connection, context, tasks)
        self._views = views
        self._watches: list[ObjectWatch] = []
        self._end_watch = views.watch(self._note_change)
        self._has_news = False
        self._pushing: asyncio.Task[None] | None = None

    def closed(self) -> None:
        """End the watches."""
        super().closed()
        self._end_watch()
        self._watches.clear()

    def writable(self) -> None:
        """Go on after the client has read some answers."""
        super().writable()
        self._push_soon()

    # -- watching ----------------------------------------------------------------------------

    async def answer_watch(self, request: FluvioRequest, frame: memoryview) -> None:
        """Begin a watch: all objects now, changes later."""
        label = schema.decode(ObjectEnvelope, frame, request.version, request.body_start).label
        if len(self._watches) >= _MOST_WATCHES:
            self.end("too_many_watches", f"more than {_MOST_WATCHES}")
            return
        if label not in LABELS:
            self.send(request, sealed(label, WatchUpdates(), request.version))
            return
        begun = ObjectWatch(request, label)
        await self._push(begun, await self._views.newest())
        self._watches.append(begun)
        self._push_soon()

    def _note_change(self) -> None:
        self._has_news = True
        self._push_soon()

    def _push_soon(self) -> None:
        if self._has_news and self._watches and self._pushing is None and not self.is_closed:
            self._pushing = self.tasks.spawn(self._push_all(), "fluvio watches")

    async def _push_all(self) -> None:
        try:
            while self._has_news and not self.is_closed and not self.connection.is_write_blocked:
                self._has_news = False
                view = await self._views.newest()
                for watch in list(self._watches):
                    if not self.is_closed:
                        await self._push(watch, view)
                await asyncio.sleep(_PAUSE_S)
        finally:
            self._pushing = None

    async def _push(self, watch: ObjectWatch, view: ClusterView) -> None:
        """Tell a client what it does not know yet."""
        before, watch.seen = watch.seen, view
        each = self.engine.turns.each
        if before is None:
            written = [
                view.write(watch.label, name, watch.request.version)
                async for name in each(view.objects[watch.label])
                if self._shows(watch.label, name)
            ]
            updates = WatchUpdates(view.epoch, all=written)
        else:
            changes = [
                change async for change in each(self._changes(watch, before, view)) if change
            ]
            updates = WatchUpdates(view.epoch, changes=changes)
        if updates.changes or updates.all:
            version = watch.request.version
            self.send(watch.request, sealed(watch.label, updates, version))

    def _changes(
        self, watch: ObjectWatch, before: ClusterView, view: ClusterView
    ) -> Iterator[ObjectChange | None]:
        """What has changed; None for what has not, so that others run in between."""
        label, version = watch.label, watch.request.version
        now, then = view.objects[label], before.objects[label]
        for name, row in now.items():
            if row == then.get(name) or not self._shows(label, name):
                yield None
            else:
                yield ObjectChange(UPDATE, view.write(label, name, version))
        for name in then.keys() - now.keys():
            if self._shows(label, name):
                yield ObjectChange(DELETE, before.write(label, name, version))

    def _shows(self, label: str, name: str) -> bool:
        """Whether the client may know of an object."""
        if self.context.authorizer.allows_all:
            return True
        topic = topic_of(label, name)
        return topic is None or self.may(AccessOperation.DESCRIBE, ResourceType.TOPIC, topic)

    # -- listing -----------------------------------------------------------------------------

    async def answer_list(self, request: FluvioRequest, frame: memoryview) -> None:
        """List objects; a kind that this cluster does not have is an empty list."""
        envelope = schema.decode(ObjectEnvelope, frame, request.version, request.body_start)
        assert isinstance(envelope.payload, memoryview)
        asked = schema.decode(ListRequest, envelope.payload, request.version)
        view = await self._views.newest()
        objects = view.objects.get(envelope.label, {})
        written = [
            view.write(envelope.label, name, request.version)
            async for name in self.engine.turns.each(objects)
            if self._shows(envelope.label, name)
            and (not asked.name_filters or any(part in name for part in asked.name_filters))
            and _is_system(objects[name]) == asked.system
        ]
        self.send(request, sealed(envelope.label, ObjectList(written), request.version))

    apis = {  # noqa: RUF012 - the same for every connection
        api_versions.API_KEY: FluvioApi(
            "ApiVersions", api_versions.VERSIONS, FluvioSession.answer_api_versions
        ),
        change_objects.CREATE_KEY: FluvioApi("Create", VERSIONS, topics.create),
        change_objects.DELETE_KEY: FluvioApi("Delete", VERSIONS, topics.delete),
        list_objects.API_KEY: FluvioApi("List", VERSIONS, answer_list),
        watch.API_KEY: FluvioApi("Watch", VERSIONS, answer_watch),
        change_objects.UPDATE_KEY: FluvioApi("Update", VERSIONS, topics.update),
    }


def _is_system(row: schema.FluvioTable) -> bool:
    """Whether an object is the cluster's own. SPUs have no such mark."""
    spec = getattr(row, "spec", row)
    return bool(getattr(spec, "system", False))
