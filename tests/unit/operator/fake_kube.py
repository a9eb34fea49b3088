"""An API server in memory, for faults that a real one does not show on demand.

It keeps objects by kind, namespace and name, counts versions, and refuses stale writes. It knows no
schemas, defaults or field managers: tests/kubernetes has the real one.
"""

import copy
from collections.abc import Iterator
from typing import Any

from kafscale.operator.kube.client import Kube, ListedObjects
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.planning.differences import contains

Key = tuple[str, str, str]


class FakeKube(Kube):
    """Give `fail` an error to have the next requests fail."""

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.fail: KubeError | None = None
        self._version = 0

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        self._call("get", kind, name)
        return copy.deepcopy(self.objects.get((kind, namespace, name)))

    async def list_all(self, kind: str, namespace: str = "", selector: str = "") -> ListedObjects:
        self._call("list", kind, "")
        found = [one for (k, _, _), one in self.objects.items() if k == kind]
        return ListedObjects(str(self._version), copy.deepcopy(found))

    async def create(self, manifest: Any) -> dict[str, Any]:
        key = _key(manifest)
        self._call("create", key[0], key[2])
        if key in self.objects:
            raise KubeError("exists", 409)
        return self._keep(key, copy.deepcopy(dict(manifest)))

    async def replace(self, manifest: Any) -> dict[str, Any]:
        key = _key(manifest)
        self._call("update", key[0], key[2])
        before = self.objects.get(key)
        if before is None:
            raise KubeError("not found", 404)
        if before["metadata"]["resourceVersion"] != manifest["metadata"].get("resourceVersion"):
            raise KubeError("conflict", 409)
        return self._keep(key, copy.deepcopy(dict(manifest)))

    async def apply(self, manifest: Any, manager: str = "") -> dict[str, Any]:
        key = _key(manifest)
        self._call("apply", key[0], key[2])
        before = self.objects.get(key, {})
        if before and contains(before, manifest):
            return before
        return self._keep(key, _merged(before, copy.deepcopy(dict(manifest))))

    async def apply_status(self, manifest: Any, manager: str = "") -> dict[str, Any]:
        key = _key(manifest)
        self._call("status", key[0], key[2])
        if key not in self.objects:
            raise KubeError("not found", 404)
        return self._keep(key, {**self.objects[key], "status": dict(manifest)["status"]})

    async def merge(self, kind: str, namespace: str, name: str, patch: Any) -> dict[str, Any]:
        self._call("merge", kind, name)
        key = kind, namespace, name
        return self._keep(key, _merged(self.objects[key], patch))

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str = "", grace_s: int | None = None
    ) -> None:
        self._call("delete", kind, name)
        self.objects.pop((kind, namespace, name), None)

    def put(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Have an object there, without a call."""
        return self._keep(_key(manifest), copy.deepcopy(manifest))

    def _keep(self, key: Key, found: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        found["metadata"] = {**found["metadata"], "resourceVersion": str(self._version)}
        found["metadata"].setdefault("uid", f"u-{self._version}")
        self.objects[key] = found
        return copy.deepcopy(found)

    def _call(self, verb: str, kind: str, name: str) -> None:
        self.calls.append((verb, kind, name))
        if self.fail is not None:
            raise self.fail


class Copies:
    """What an informer would have, read from the fake server itself."""

    def __init__(self, kube: FakeKube, kind: str) -> None:
        self._kube, self._kind = kube, kind

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        return copy.deepcopy(self._kube.objects.get((self._kind, namespace, name)))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([one for (kind, _, _), one in self._kube.objects.items() if kind == self._kind])


def _key(manifest: Any) -> Key:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def _merged(before: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(before, dict):
        return patch
    found = dict(before)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value)
    return found
