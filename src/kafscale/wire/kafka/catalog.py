"""Every API this room can read and write, found by its number.

Here: one entry per module of messages/. A module holds one request and its response, so the
folder is the list: a new file there is a new entry here.
Next door: the tables (messages/), which of these a broker offers (the Kafka gateway).
Never here: behaviour.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Final, NamedTuple

from kafscale.wire.kafka import messages
from kafscale.wire.kafka.schema import Message


class Api(NamedTuple):
    """A request and the response it gets."""

    request: type[Message]
    response: type[Message]

    @property
    def key(self) -> int:
        return self.request.api_key

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    @property
    def versions(self) -> range:
        return self.request.versions

    def flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return version >= self.request.flexible_from


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(messages.__path__):
        yield importlib.import_module(f"{messages.__name__}.{found.name}")


def _api_of(module: ModuleType) -> Api:
    """The one request that the module defines, and the response of the same name."""
    (request,) = (
        kind
        for name, kind in vars(module).items()
        if name.endswith("Request") and issubclass(kind, Message)
    )
    return Api(request, vars(module)[request.__name__.removesuffix("Request") + "Response"])


APIS: Final[tuple[Api, ...]] = tuple(sorted(map(_api_of, _modules()), key=lambda api: api.key))

BY_KEY: Final[dict[int, Api]] = {api.key: api for api in APIS}
assert len(BY_KEY) == len(APIS), "two modules of messages/ have the same API key"
