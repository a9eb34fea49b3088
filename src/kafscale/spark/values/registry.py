"""A schema registry, as far as reading needs one: schemas by number, those of a subject.

Here: questions over HTTP; answers about a number are kept for the life of the process, because a
number never changes its meaning. Who we are stands in the environment
(KAFSCALE_SCHEMA_REGISTRY_AUTH, user:password), never in an option: options are shown in plans.
Next door: values that name their schema by its number (framed.py).
"""

import base64
import binascii
import json
import os
import urllib.error
import urllib.request
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from kafscale.model.errors import KafscaleError

_TIMEOUT_S: Final = 10
_AUTH: Final = "KAFSCALE_SCHEMA_REGISTRY_AUTH"
_NOT_FOUND: Final = 404
_LARGEST: Final = 4 << 20  # bytes of an answer
# Protobuf schemas are asked for as compiled descriptors; registries pass it over for Avro.
_FORM: Final = "?format=serialized"


class RegistryError(KafscaleError):
    """The registry did not answer, or not what it should."""


class NoSuchSchema(RegistryError):
    """The registry does not have the schema."""


class UnreadableSchema(RegistryError):
    """The registry has the schema, and we cannot use it."""


class Schema(NamedTuple):
    """A schema a registry holds: Avro's text, or a set of Protobuf descriptors."""

    number: int
    kind: str  # avro, protobuf
    body: bytes


@lru_cache(maxsize=1024)
def by_number(url: str, number: int) -> Schema:
    """The schema with this number."""
    return _schema(url, number, _get(f"{url}/schemas/ids/{number}{_FORM}"))


def latest(url: str, subject: str) -> Schema:
    """The newest schema of a subject."""
    answer = _get(f"{_subject(url, subject)}/latest{_FORM}")
    return _schema(url, int(answer.get("id", 0)), answer)


def versions(url: str, subject: str) -> list[Schema]:
    """All schemas of a subject, oldest first; none where none is registered."""
    try:
        numbers = _get(_subject(url, subject))
    except NoSuchSchema:
        return []
    answers = [_get(f"{_subject(url, subject)}/{number}{_FORM}") for number in numbers]
    return [_schema(url, int(row["id"]), row) for row in answers]


def _subject(url: str, subject: str) -> str:
    return f"{url}/subjects/{quote(subject, safe='')}/versions"


def _schema(url: str, number: int, answer: dict[str, Any]) -> Schema:
    kind = str(answer.get("schemaType", "AVRO")).lower()
    if kind == "avro":
        if answer.get("references"):
            raise UnreadableSchema(f"schema {number} refers to others: of Avro that cannot be read")
        return Schema(number, kind, str(answer["schema"]).encode())
    if kind == "protobuf":
        return Schema(number, kind, _descriptor_set(url, answer))
    raise UnreadableSchema(f"schema {number} is {kind}; avro and protobuf can be read")


def _descriptor_set(url: str, answer: dict[str, Any]) -> bytes:
    """The file and all it imports, those first."""
    from google.protobuf import descriptor_pb2

    files: dict[str, Any] = {}

    def add(row: dict[str, Any], name: str) -> None:
        try:
            raw = base64.b64decode(row["schema"], validate=True)
        except binascii.Error:
            raise UnreadableSchema(
                f"{url} gives Protobuf as text and not compiled (format=serialized)"
            ) from None
        file = descriptor_pb2.FileDescriptorProto.FromString(raw)
        file.name = name or file.name
        for part in row.get("references") or ():
            if part["name"] not in files:
                place = f"{_subject(url, part['subject'])}/{part['version']}{_FORM}"
                add(_get(place), part["name"])
        for needed in file.dependency:
            _add_well_known(needed, files)
        files[file.name] = file

    add(answer, "")
    return bytes(descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString())


def _add_well_known(name: str, files: dict[str, Any]) -> None:
    """Google's own types are imported by many schemas and registered nowhere."""
    from google.protobuf import (  # noqa: F401 - importing them is what makes them known
        any_pb2,
        descriptor_pb2,
        descriptor_pool,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    if name in files or not name.startswith("google/protobuf/"):
        return
    file = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
    for needed in file.dependency:
        _add_well_known(needed, files)
    files[name] = file


def _get(url: str) -> Any:
    if not url.startswith(("http://", "https://")):
        raise RegistryError(f"{url} is no http(s) address of a schema registry")
    request = urllib.request.Request(url)
    if auth := os.environ.get(_AUTH):
        request.add_header("Authorization", "Basic " + base64.b64encode(auth.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.loads(_bounded(answer.read(_LARGEST + 1)))
    except urllib.error.HTTPError as problem:
        problem.close()
        kind = NoSuchSchema if problem.code == _NOT_FOUND else RegistryError
        raise kind(f"{url}: {problem}") from problem
    except (urllib.error.URLError, ValueError, OSError) as problem:
        raise RegistryError(f"{url}: {problem}") from problem


def _bounded(raw: bytes) -> bytes:
    if len(raw) > _LARGEST:
        raise ValueError("the answer is too large")
    return raw
