"""The requests of Iceberg's REST catalog that readers send, and their answers.

Here: paths and JSON. Everything that would change a table is refused: the pipeline commits.
Next door: which tables there are (topic_tables.py), the socket (server.py).
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import orjson

SEPARATOR: Final = "\x1f"  # between the levels of a namespace, in paths
ENDPOINTS: Final = (
    "GET /v1/config",
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
)


class ShownTable(NamedTuple):
    """A table as a reader needs it."""

    metadata_location: str
    metadata: bytes  # JSON, as it lies in the bucket
    config: Mapping[str, str]  # how to reach the files; no credentials


class Tables(Protocol):
    """The tables that there are."""

    @property
    def namespace(self) -> tuple[str, ...]:
        """All of them are in this one."""
        ...

    def names(self) -> list[str]:
        """Which."""
        ...

    def load(self, name: str) -> ShownTable | None:
        """One of them; None: there is none of that name."""
        ...


class RestAnswer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes = b""


def answer(tables: Tables, method: str, target: str) -> RestAnswer:
    """Answer one request, whose body does not matter."""
    parts = urlsplit(target)
    path = [unquote(part) for part in parts.path.strip("/").split("/")]
    if path[0] != "v1":
        return _error(HTTPStatus.NOT_FOUND, "NotFoundException", f"no such path: {parts.path}")
    match path[1:]:
        case ["config"] if method == "GET":
            return _json({"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS})
        case ["namespaces"] if method == "GET":
            return _namespaces(tables, parse_qs(parts.query).get("parent", [""])[0])
        case ["namespaces", name, *rest]:
            return _in_namespace(tables, method, name, rest)
    return _error(HTTPStatus.NOT_FOUND, "NotFoundException", f"no such path: {parts.path}")


def _in_namespace(tables: Tables, method: str, name: str, rest: list[str]) -> RestAnswer:
    is_read = method in ("GET", "HEAD")
    if tuple(name.split(SEPARATOR)) != tables.namespace:
        return _error(
            HTTPStatus.NOT_FOUND, "NoSuchNamespaceException", f"there is no namespace {name!r}"
        )
    match rest:
        case [] if is_read:
            return _shown(method, lambda: {"namespace": tables.namespace, "properties": {}})
        case ["tables"] if is_read:
            rows = [{"namespace": tables.namespace, "name": one} for one in tables.names()]
            return _json({"identifiers": rows})
        case ["views"] if is_read:
            return _json({"identifiers": []})
        case ["tables", table] if is_read:
            return _table(tables, method, table)
        case ["tables", _, "metrics"] if method == "POST":
            return RestAnswer(HTTPStatus.NO_CONTENT)
        case ["views", view, *_] if is_read:
            return _error(HTTPStatus.NOT_FOUND, "NoSuchViewException", f"there is no view {view!r}")
    return _error(
        HTTPStatus.FORBIDDEN,
        "ForbiddenException",
        "this catalog is read-only: tables follow their topics, and the pipeline commits",
    )


def _namespaces(tables: Tables, parent: str) -> RestAnswer:
    """The levels of the one namespace, one below the other."""
    above = tuple(parent.split(SEPARATOR)) if parent else ()
    inside = tables.namespace[: len(above)] == above and len(above) < len(tables.namespace)
    if above and not inside and above != tables.namespace:
        return _error(
            HTTPStatus.NOT_FOUND, "NoSuchNamespaceException", f"there is no namespace {parent!r}"
        )
    below = [tables.namespace[: len(above) + 1]] if inside else []
    return _json({"namespaces": below})


def _table(tables: Tables, method: str, name: str) -> RestAnswer:
    shown = tables.load(name)
    if shown is None:
        return _error(HTTPStatus.NOT_FOUND, "NoSuchTableException", f"there is no table {name!r}")
    return _shown(
        method,
        lambda: {
            "metadata-location": shown.metadata_location,
            "metadata": orjson.Fragment(shown.metadata),
            "config": dict(shown.config),
        },
    )


def _shown(method: str, body: Callable[[], object]) -> RestAnswer:
    return RestAnswer(HTTPStatus.NO_CONTENT) if method == "HEAD" else _json(body())


def _json(body: object) -> RestAnswer:
    return RestAnswer(HTTPStatus.OK, orjson.dumps(body))


def _error(status: HTTPStatus, kind: str, message: str) -> RestAnswer:
    body: dict[str, Any] = {"message": message, "type": kind, "code": int(status)}
    return RestAnswer(status, orjson.dumps({"error": body}))


def refused(status: HTTPStatus, message: str) -> RestAnswer:
    """The answer to a client that may not ask, or asks too much."""
    return _error(status, "NotAuthorizedException", message)
