"""A fake of the API server, over HTTP: objects, versions, watches, apply, status, owners.

What it has: create, read, list by label, watch, replace with a version, merge patch,
server-side apply with field managers for maps, the status subresource, generations, finalizers,
deletion by owner, defaults of our own resources.
What it has not: validation, CEL, field ownership within lists, other kinds' defaults.
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from kafscale.operator.kinds.crds import definitions
from kafscale.operator.kube.resources import RESOURCES

Object = dict[str, Any]
Key = tuple[str, str, str]  # kind, namespace, name

_KINDS = {(kind.api_version, kind.plural): kind.kind for kind in RESOURCES.values()}
_SCHEMAS = {
    one["spec"]["names"]["kind"]: one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for one in definitions()
}


class Refused(Exception):
    """Answered with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class FakeApi:
    """The objects, and who watches them."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.requests: list[tuple[str, str]] = []
        self._applied: dict[tuple[Key, str, str], Object] = {}  # by manager and subresource
        self._version = 0
        self._uid = 0
        self._watchers: list[tuple[str, asyncio.Queue[tuple[str, Object] | None]]] = []
        self._runner: web.AppRunner | None = None
        self.changed = asyncio.Event()

    async def start(self, host: str, port: int) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()

    async def stop(self) -> None:
        for _, queue in self._watchers:
            queue.put_nowait(None)
        if self._runner is not None:
            await self._runner.cleanup()

    def cut_watches(self) -> None:
        """End every watch, as a server does that restarts."""
        for _, queue in self._watchers:
            queue.put_nowait(None)

    # -- objects, for controllers and tests --------------------------------------------------

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self.objects.get((kind, namespace, name))

    def all_of(self, kind: str, namespace: str = "", **labels: str) -> list[Object]:
        return [
            one
            for (k, n, _), one in sorted(self.objects.items())
            if k == kind
            and namespace in ("", n)
            and labels.items() <= one["metadata"].get("labels", {}).items()
        ]

    def create(self, found: Object) -> Object:
        key = _key(found)
        if key in self.objects:
            raise Refused(409, f"{key} exists")
        found = copy.deepcopy(found)
        self._uid += 1
        found["metadata"] |= {"uid": f"uid-{self._uid}", "generation": 1}
        found["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        if key[0] in _SCHEMAS:
            _default(found, _SCHEMAS[key[0]])
        if key[0] == "StatefulSet":
            found["spec"].setdefault("replicas", 1)
        return self._keep(found, "ADDED")

    def update(self, found: Object) -> Object:
        before = self.objects[_key(found)]
        if _without_version(before) == _without_version(found):
            return before
        if before.get("spec") != found.get("spec"):
            found["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        done = self._keep(found, "MODIFIED")
        if found["metadata"].get("deletionTimestamp") and not found["metadata"].get("finalizers"):
            self._remove(_key(found))
        return done

    def change(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        """Change some fields, as `kubectl patch` does."""
        live = self.objects.get((kind, namespace, name))
        if live is None:
            raise Refused(404, f"{kind} {namespace}/{name} not found")
        return self.update(_merged(copy.deepcopy(live), patch))

    def set_status(self, found: Object, status: Object) -> None:
        """Write a status as a controller does."""
        live = self.objects.get(_key(found))
        if live is not None:
            self.update({**copy.deepcopy(live), "status": status})

    def delete(self, kind: str, namespace: str, name: str, *, now: bool = False) -> None:
        key = kind, namespace, name
        live = self.objects.get(key)
        if live is None:
            raise Refused(404, f"{key} not found")
        if (kind == "Pod" and not now) or live["metadata"].get("finalizers"):
            if not live["metadata"].get("deletionTimestamp"):
                marked = copy.deepcopy(live)
                marked["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                self._keep(marked, "MODIFIED")
            return
        self._remove(key)

    def _remove(self, key: Key) -> None:
        gone = self.objects.pop(key)
        self._applied = {at: one for at, one in self._applied.items() if at[0] != key}
        self._version += 1
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._tell("DELETED", gone)
        for other in list(self.objects.values()):
            owners = other["metadata"].get("ownerReferences", [])
            if any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self.delete(*_key(other))

    def _keep(self, found: Object, event: str) -> Object:
        self._version += 1
        found["metadata"]["resourceVersion"] = str(self._version)
        self.objects[_key(found)] = found
        self._tell(event, found)
        return found

    def _tell(self, event: str, found: Object) -> None:
        self.changed.set()
        for kind, queue in self._watchers:
            if kind == found["kind"]:
                queue.put_nowait((event, copy.deepcopy(found)))

    # -- requests ----------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            kind, namespace, name, sub = _parse(request.path)
            self.requests.append((request.method, kind))
            if request.method == "GET" and not name:
                if request.query.get("watch"):
                    return await self._watch(request, kind)
                return self._list(request, kind, namespace)
            body = await request.json() if request.can_read_body else {}
            found = self._change(request, (kind, namespace, name), sub, body)
            return web.json_response(found)
        except Refused as refused:
            return web.json_response({"message": str(refused)}, status=refused.status)

    def _change(self, request: web.Request, key: Key, sub: str, body: Object) -> Object:
        kind, namespace, name = key
        live = self.objects.get(key)
        if request.method == "POST":
            body["metadata"]["namespace"] = namespace
            return self.create(body)
        if request.method == "PATCH" and "apply" in request.content_type:
            return self._apply(key, sub, body, request.query["fieldManager"])
        if live is None:
            raise Refused(404, f"{kind} {namespace}/{name} not found")
        if request.method == "GET":
            return live
        if request.method == "DELETE":
            self.delete(*key, now=body.get("gracePeriodSeconds") == 0)
            return live
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != live["metadata"]["resourceVersion"]:
            raise Refused(409, "the object has been modified")
        if request.method == "PUT":
            return self.update(body)
        return self.change(*key, body)

    def _apply(self, key: Key, sub: str, body: Object, manager: str) -> Object:
        live = self.objects.get(key)
        place = (key, manager, sub)
        if live is None:
            if sub:
                raise Refused(404, f"{key} not found")
            made = self.create(body)
            self._applied[place] = copy.deepcopy(body)
            return made
        found = copy.deepcopy(live)
        _dropped(found, self._applied.get(place, {}), body)
        found = _merged(found, {"status": body["status"]} if sub else body)
        self._applied[place] = copy.deepcopy(body)
        return self.update(found)

    def _list(self, request: web.Request, kind: str, namespace: str) -> web.Response:
        selector = dict(
            pair.split("=", 1) for pair in request.query.get("labelSelector", "").split(",") if pair
        )
        items = self.all_of(kind, namespace, **selector)
        metadata = {"resourceVersion": str(self._version)}
        return web.json_response({"metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        """Tell what happens from now on: nothing happens between a list and its watch here."""
        queue: asyncio.Queue[tuple[str, Object] | None] = asyncio.Queue()
        watcher = (kind, queue)
        since = int(request.query["resourceVersion"])
        for one in self.all_of(kind):
            if int(one["metadata"]["resourceVersion"]) > since:
                queue.put_nowait(("MODIFIED", copy.deepcopy(one)))
        self._watchers.append(watcher)
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            async for event, found in _events(queue):
                line = json.dumps({"type": event, "object": found}) + "\n"
                await response.write(line.encode())
        except ConnectionError:
            pass
        finally:
            self._watchers.remove(watcher)
        return response


async def _events(
    queue: asyncio.Queue[tuple[str, Object] | None],
) -> AsyncIterator[tuple[str, Object]]:
    while (event := await queue.get()) is not None:
        yield event


def _key(found: Object) -> Key:
    return found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]


def _parse(path: str) -> tuple[str, str, str, str]:
    """Kind, namespace, name and subresource of a path."""
    words = path.strip("/").split("/")
    version, rest = (
        (words[1], words[2:]) if words[0] == "api" else ("/".join(words[1:3]), words[3:])
    )
    namespace = ""
    if rest and rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = _KINDS.get((version, rest[0])) if rest else None
    if kind is None:
        raise Refused(404, f"{path}: no such kind")
    return kind, namespace, *[*rest[1:], "", ""][:2]  # type: ignore[return-value]


def _without_version(found: Object) -> Object:
    metadata = {k: v for k, v in found["metadata"].items() if k != "resourceVersion"}
    return {**found, "metadata": metadata}


def _merged(before: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(before, dict):
        return copy.deepcopy(patch)
    for key, value in patch.items():
        if value is None:
            before.pop(key, None)
        else:
            before[key] = _merged(before.get(key), value)
    return before


def _dropped(found: Any, before: Any, now: Any) -> None:
    """Take away what a manager had applied and names no more."""
    if not (isinstance(found, dict) and isinstance(before, dict) and isinstance(now, dict)):
        return
    for key, value in before.items():
        if key not in now:
            found.pop(key, None)
        else:
            _dropped(found.get(key), value, now[key])


def _default(found: Object, schema: Object) -> None:
    for name, below in schema.get("properties", {}).items():
        if name not in found and "default" in below:
            found[name] = copy.deepcopy(below["default"])
        if isinstance(found.get(name), dict):
            _default(found[name], below)
