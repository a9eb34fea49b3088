"""Requests to the API server.

Here: get, list, watch, server-side apply, create, patch, delete, each as one request. Errors are
KubeError.
Next door: where the server is (access.py), following a kind (informer.py).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple

import aiohttp

from kafscale.operator.kube.access import Access
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.kube.resources import RESOURCES

Object = dict[str, Any]

MANAGER: Final = "kafscale-operator"
SCALE_MANAGER: Final = "kafscale-operator-scale"
PAGE: Final = 500
_ANSWER_WITHIN_S: Final = 30.0
_SILENT_S: Final = 90.0  # bookmarks come every minute: a stream that says nothing is dead
_MOST_LINE_BYTES: Final = 16 << 20  # of one watched object; etcd takes 1.5 MB


class ListedObjects(NamedTuple):
    """All objects of a kind, as of one version."""

    version: str
    items: list[Object]


class Kube:
    """A client of the API server. Use it as a context."""

    def __init__(self, access: Access, count: Callable[[str, str], None] | None = None) -> None:
        """`count` is told the verb and the kind of every request."""
        self.access = access
        self._count = count or (lambda verb, kind: None)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Kube":
        connector = aiohttp.TCPConnector(ssl=self.access.trust or True, limit=64)
        self._http = aiohttp.ClientSession(connector=connector)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Read an object; None if it is not there."""
        try:
            return await self._ask("get", kind, "GET", RESOURCES[kind].path(namespace, name))
        except KubeError as problem:
            if problem.is_not_found:
                return None
            raise

    async def list_all(self, kind: str, namespace: str = "", selector: str = "") -> ListedObjects:
        """Read all objects of a kind, page by page."""
        path = RESOURCES[kind].path(namespace)
        items: list[Object] = []
        question = {"limit": str(PAGE), **({"labelSelector": selector} if selector else {})}
        while True:
            answer = await self._ask("list", kind, "GET", path, question)
            items += answer.get("items") or []
            token = answer["metadata"].get("continue")
            if not token:
                return ListedObjects(answer["metadata"]["resourceVersion"], items)
            question["continue"] = token

    async def watch(
        self, kind: str, version: str, namespace: str = "", selector: str = "", within_s: int = 300
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield type and object of every change after a version, until the server ends it."""
        assert self._http is not None
        question = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(within_s),
            **({"labelSelector": selector} if selector else {}),
        }
        self._count("watch", kind)
        url = self.access.server + RESOURCES[kind].path(namespace)
        patience = aiohttp.ClientTimeout(total=None, sock_read=_SILENT_S, sock_connect=10)
        try:
            async with self._http.get(
                url, params=question, headers=self.access.headers(), timeout=patience
            ) as answer:
                if answer.status != 200:
                    raise _refusal(answer, await answer.text())
                async for line in _lines(answer.content):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise KubeError(
                            status.get("message", "watch failed"), status.get("code", 0)
                        )
                    yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise KubeError(f"watch of {kind}: {problem!r}") from problem

    async def apply(self, manifest: Mapping[str, Any], manager: str = MANAGER) -> Object:
        """Say how an object should be; fields that others own and we do not name stay."""
        return await self._apply(manifest, manager, "")

    async def apply_status(self, manifest: Mapping[str, Any], manager: str = MANAGER) -> Object:
        """Say what the status of an object is."""
        return await self._apply(manifest, manager, "status")

    async def _apply(self, manifest: Mapping[str, Any], manager: str, sub: str) -> Object:
        kind, metadata = manifest["kind"], manifest["metadata"]
        path = RESOURCES[kind].path(metadata.get("namespace", ""), metadata["name"], sub)
        question = {"fieldManager": manager, "force": "true"}
        kind_of_patch = "application/apply-patch+yaml"  # JSON is YAML
        return await self._ask("patch", kind, "PATCH", path, question, manifest, kind_of_patch)

    async def create(self, manifest: Mapping[str, Any]) -> Object:
        """Make an object; a conflict if it is there."""
        path = RESOURCES[manifest["kind"]].path(manifest["metadata"].get("namespace", ""))
        question = {"fieldManager": MANAGER}
        return await self._ask("create", manifest["kind"], "POST", path, question, manifest)

    async def replace(self, manifest: Mapping[str, Any]) -> Object:
        """Write an object whole; a conflict if its version is not the latest."""
        metadata = manifest["metadata"]
        path = RESOURCES[manifest["kind"]].path(metadata.get("namespace", ""), metadata["name"])
        return await self._ask("update", manifest["kind"], "PUT", path, {}, manifest)

    async def merge(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        """Change some fields; None takes a field away."""
        path = RESOURCES[kind].path(namespace, name)
        question = {"fieldManager": MANAGER}
        merge = "application/merge-patch+json"
        return await self._ask("patch", kind, "PATCH", path, question, patch, merge)

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str = "", grace_s: int | None = None
    ) -> None:
        """Delete an object; one that is not there is fine."""
        body: Object = {"propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            await self._ask(
                "delete", kind, "DELETE", RESOURCES[kind].path(namespace, name), {}, body
            )
        except KubeError as problem:
            if not problem.is_not_found:
                raise

    async def _ask(
        self,
        verb: str,
        kind: str,
        method: str,
        path: str,
        question: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        assert self._http is not None
        self._count(verb, kind)
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.access.headers(), "Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = content_type
        try:
            async with (
                asyncio.timeout(_ANSWER_WITHIN_S),
                self._http.request(
                    method,
                    self.access.server + path,
                    params=question or {},
                    data=data,
                    headers=headers,
                ) as answer,
            ):
                text = await answer.text()
                if answer.status >= 300:
                    raise _refusal(answer, text)
                found: Object = json.loads(text)
                return found
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise KubeError(f"{verb} {kind}: {problem!r}") from problem


def _refusal(answer: aiohttp.ClientResponse, text: str) -> KubeError:
    try:
        message = json.loads(text).get("message") or text
    except ValueError:
        message = text[:300]
    after = answer.headers.get("Retry-After", "")
    return KubeError(message, answer.status, float(after) if after.isdigit() else None)


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    waiting = b""
    async for chunk in stream.iter_any():
        waiting += chunk
        *whole, waiting = waiting.split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(waiting) > _MOST_LINE_BYTES:
            raise KubeError("the API server sent an object that is too large")
