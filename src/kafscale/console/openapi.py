"""The API as documents: OpenAPI 3.1, and the types of the page.

`python -m kafscale.console.openapi FILE` writes the types that the page is checked against
(`ui/src/shapes.d.ts`); without a file it prints the OpenAPI document.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from kafscale.console.answers import record_shapes, shapes, store_shapes
from kafscale.console.routes import PREFIX, ROUTES, Query, Route

_MODULES: Final = (shapes, record_shapes, store_shapes)
_REFERENCE: Final = "#/components/schemas/{name}"
_DIGITS: Final = inspect.type_info(shapes.Digits)
_PARAMETER: Final = re.compile(r"{(\w+)}")


def document(version: str) -> dict[str, Any]:
    """Give the OpenAPI document."""
    kinds = [kind for route in ROUTES for kind in _kinds(route)]
    schemas, components = msgspec.json.schema_components(
        [*kinds, shapes.ErrorAnswer, *(route.query for route in ROUTES)], ref_template=_REFERENCE
    )
    found = dict(zip(map(str, kinds), schemas, strict=False))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        operations = paths.setdefault(f"/{PREFIX}{route.path}", {})
        operations[route.method.lower()] = _operation(route, found, components)
    names = {route.query.__name__ for route in ROUTES}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kafscale Console", "version": version},
        "paths": paths,
        "components": {
            "schemas": {name: one for name, one in components.items() if name not in names},
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": "kafscale_session"}
            },
        },
        "security": [{"session": []}],
    }


def _kinds(route: Route) -> list[Any]:
    return [kind for kind in (route.body, route.answer, *route.events) if kind is not None]


def _operation(route: Route, found: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    refused = {"application/json": {"schema": {"$ref": _REFERENCE.format(name="ErrorAnswer")}}}
    answer: dict[str, Any] = {"description": route.doc}
    if route.events:
        answer["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif route.answer is bytes:
        answer["content"] = {"application/octet-stream": {}}
    elif route.answer is not None:
        answer["content"] = {"application/json": {"schema": found[str(route.answer)]}}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.doc,
        "x-kafscale-effect": route.effect,
        "parameters": [*_path_parameters(route), *_query_parameters(route.query, components)],
        "responses": {
            str(route.status): answer,
            "default": {"description": "A refusal", "content": refused},
        },
    }
    if route.body is not None:
        content = {"application/json": {"schema": found[str(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.is_open:
        operation["security"] = []
    return operation


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(query: type[Query], components: dict[str, Any]) -> Iterator[dict[str, Any]]:
    schema = components[query.__name__]
    for name, kind in schema.get("properties", {}).items():
        is_required = name in schema.get("required", [])
        yield {"name": name, "in": "query", "required": is_required, "schema": kind}


def type_declarations() -> str:
    """Give the types of the page in TypeScript."""
    taken = _requests()
    lines = [
        "// Written by `python -m kafscale.console.openapi` from the server's structs.",
        "// Offsets, times of records and producer ids: digits, because numbers would be rounded.",
        "export type Int64 = string",
        "",
    ]
    for module in _MODULES:
        for name, kind in vars(module).items():
            is_shape = isinstance(kind, type) and issubclass(kind, shapes.ApiShape)
            if is_shape and kind is not shapes.ApiShape and kind.__module__ == module.__name__:
                lines += _interface(name, kind, kind in taken)
    for query in dict.fromkeys(route.query for route in ROUTES):
        lines += _interface(query.__name__, query, True)
    lines += ["// Method and path below `api/v1/`: what a route takes and gives.", *_routes()]
    return "\n".join(lines)


def _requests() -> set[Any]:
    """Every struct that the page sends: what has a default may be left out there."""
    seen: set[Any] = set()

    def visit(kind: inspect.Type) -> None:
        if isinstance(kind, inspect.StructType) and kind.cls not in seen:
            seen.add(kind.cls)
            for one in kind.fields:
                visit(one.type)
        for name in ("item_type", "value_type"):
            if hasattr(kind, name):
                visit(getattr(kind, name))
        for one_of in getattr(kind, "types", ()):
            visit(one_of)

    for route in ROUTES:
        if route.body is not None:
            visit(inspect.type_info(route.body))
    return seen


def _interface(name: str, kind: Any, is_request: bool) -> list[str]:
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{name} is no struct")
    comment = " ".join((kind.__doc__ or "").split())
    rows = [
        f"  {one.encode_name}{'?' if is_request and not one.required else ''}: {_ts(one.type)}"
        for one in info.fields
    ]
    return [f"/** {comment} */", f"export interface {name} {{", *rows, "}", ""]


def _ts(kind: inspect.Type) -> str:
    if kind == _DIGITS:
        return "Int64"
    match kind:
        case inspect.StructType():
            return str(kind.cls.__name__)
        case inspect.ListType() | inspect.VarTupleType():
            item = _ts(kind.item_type)
            return f"({item})[]" if " " in item else f"{item}[]"
        case inspect.DictType():
            return f"Record<string, {_ts(kind.value_type)}>"
        case inspect.UnionType():
            return " | ".join(_ts(one) for one in kind.types)
        case inspect.LiteralType():
            return " | ".join(msgspec.json.encode(value).decode() for value in kind.values)
        case inspect.StrType():
            return "string"
        case inspect.BoolType():
            return "boolean"
        case inspect.IntType() | inspect.FloatType():
            return "number"
        case inspect.NoneType():
            return "null"
        case inspect.BytesType():
            return "Blob"
    return "unknown"


def _routes() -> list[str]:
    rows = []
    for route in ROUTES:
        body = _ts(inspect.type_info(route.body)) if route.body is not None else "undefined"
        answer = "undefined"
        if route.events:
            answer = " | ".join(kind.__name__ for kind in route.events)
        elif route.answer is not None:
            answer = _ts(inspect.type_info(route.answer))
        head = f'  "{route.method} {route.path}": {{ query: {route.query.__name__}; '
        rows.append(f"{head}body: {body}; answer: {answer} }}")
    return ["export interface Routes {", *rows, "}", ""]


def main(arguments: list[str]) -> int:
    """Write the types into the named file, or the OpenAPI document to standard output."""
    if arguments:
        target = Path(arguments[0])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(type_declarations(), encoding="utf-8")
    else:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document("")), indent=2).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
