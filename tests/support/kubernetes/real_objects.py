"""The objects of a real API server, with the manners of the fake one (fake_api.py).

In this room: reading from copies that informers keep; what tests write is written at once, and what
the kubelet tells is sent in order by a task of its own.
"""

import asyncio
import http.client
import json
from functools import partial
from typing import Any

from kafscale.operator.kube.client import Kube
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.kube.informer import Informer
from kafscale.operator.kube.resources import RESOURCES, KindPath
from kafscale.system import SystemDice
from tests.support.kubernetes.fake_api import Object

_FOLLOWED = (
    *("KafscaleCluster", "KafscaleTopic", "KafscaleUser", "Pod", "Service", "Secret", "ConfigMap"),
    *("StatefulSet", "Deployment", "Job", "CronJob", "Lease", "Node", "Namespace"),
    *("HorizontalPodAutoscaler", "PersistentVolumeClaim"),
)
_MERGE = "application/merge-patch+json"
for _kind in (
    KindPath("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    KindPath("v1", "PersistentVolume", "persistentvolumes", is_namespaced=False),
):
    RESOURCES[_kind.kind] = _kind

Key = tuple[str, str, str]


class RealObjects:
    """Use it as a context."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self._informers: dict[str, Informer] = {}
        self._own: dict[Key, Object] = {}  # written by us and not yet seen
        self._told: dict[str, Object] = {}  # statuses by uid
        self._letters: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        for kind in _FOLLOWED:
            informer = Informer(self.kube, kind, SystemDice(), partial(self._seen, kind))
            self._informers[kind] = informer
            self._tasks.append(asyncio.create_task(informer.run()))
        async with asyncio.timeout(60):
            for informer in self._informers.values():
                await informer.synced.wait()
        self._tasks.append(asyncio.create_task(self._send()))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- reading -----------------------------------------------------------------------------

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._own.get((kind, namespace, name)) or self._informers[kind].get(namespace, name)

    def all_of(self, kind: str, namespace: str = "", **labels: str) -> list[Object]:
        found = [
            one
            for one in self._informers[kind]
            if namespace in ("", one["metadata"].get("namespace", ""))
            and labels.items() <= one["metadata"].get("labels", {}).items()
        ]
        return sorted(found, key=lambda one: str(one["metadata"]["name"]))

    def _seen(self, kind: str, found: Object) -> None:
        found.setdefault("kind", kind)  # what was listed has none
        key = kind, found["metadata"].get("namespace", ""), found["metadata"]["name"]
        if key in self._own and _version(found) >= _version(self._own[key]):
            del self._own[key]

    # -- what tests write --------------------------------------------------------------------

    def create(self, found: Object) -> Object:
        resource = RESOURCES[found["kind"]]
        whole = {"apiVersion": resource.api_version, **found}
        path = resource.path(found["metadata"].get("namespace", ""))
        return self._keep(self._ask("POST", path, whole))

    def change(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        return self._keep(self._ask("PATCH", RESOURCES[kind].path(namespace, name), patch, _MERGE))

    def try_out(self, manifest: Object) -> None:
        """Have the server say whether it would take an object, field by field."""
        path = RESOURCES[manifest["kind"]].path(*_place(manifest))
        question = "dryRun=All&fieldValidation=Strict&fieldManager=test&force=true"
        self._ask("PATCH", f"{path}?{question}", manifest, "application/apply-patch+yaml")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Any other question to the API server."""
        return self._ask(method, path, body)

    def _keep(self, found: Object) -> Object:
        metadata = found["metadata"]
        self._own[found["kind"], metadata.get("namespace", ""), metadata["name"]] = found
        return found

    def _ask(self, method: str, path: str, body: Any, kind: str = "application/json") -> Any:
        server = self.kube.access.server.removeprefix("https://")
        asked = http.client.HTTPSConnection(server, timeout=60, context=self.kube.access.trust)
        headers = {**self.kube.access.headers(), "Content-Type": kind}
        try:
            asked.request(method, path, None if body is None else json.dumps(body), headers)
            answer = asked.getresponse()
            text = answer.read().decode()
        finally:
            asked.close()
        if answer.status >= 300:
            raise KubeError(text, answer.status)
        return json.loads(text)

    # -- what the kubelet tells --------------------------------------------------------------

    def set_status(self, found: Object, status: Object) -> None:
        uid = found["metadata"]["uid"]
        if self._told.get(uid) == status:
            return
        self._told[uid] = status
        self._letters.put_nowait(("status", found["kind"], *_place(found), json.dumps(status)))

    def delete(self, kind: str, namespace: str, name: str, *, now: bool = False) -> None:
        live = self.get(kind, namespace, name)
        uid = live["metadata"]["uid"] if live else ""
        self._letters.put_nowait(("delete", kind, namespace, name, uid, "now" if now else ""))

    async def _send(self) -> None:
        while True:
            verb, kind, namespace, name, *rest = await self._letters.get()
            try:
                if verb == "delete":
                    grace_s = 0 if rest[1] else None
                    await self.kube.delete(kind, namespace, name, uid=rest[0], grace_s=grace_s)
                else:
                    path = RESOURCES[kind].path(namespace, name, "status")
                    patch = {"status": json.loads(rest[0])}
                    await self.kube._ask("patch", kind, "PATCH", path, {}, patch, _MERGE)
            except KubeError as problem:
                if problem.status not in (404, 409):
                    print(f"the API server refused a {verb} of {kind} {name}: {problem}")


def _place(found: Object) -> tuple[str, str]:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]


def _version(found: Object) -> int:
    return int(found["metadata"]["resourceVersion"])
