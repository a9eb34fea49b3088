"""Config resources: what a request may describe or alter.

Here: what AlterConfigs, IncrementalAlterConfigs and DescribeConfigs have in common.
Next door: the APIs themselves (apis/), what a change does (engine/topics/changes.py).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from kafscale.engine.topics.changes import ConfigChange
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Call, in_time
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.model.errors import InvalidRequest, KafscaleError

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
_WITHOUT: Final = {CLIENT_METRICS: "client metrics"}

ALTERED_WITHIN_S: Final = 20.0  # the requests have no timeout field
_MOST_RESOURCES: Final = 10_000


class Resource(Protocol):
    """A resource as a request names it; every message has a type of its own for it."""

    @property
    def resource_type(self) -> int:
        """Topic, broker, ..."""

    @property
    def resource_name(self) -> str:
        """Its name or number."""


class ResourceResult(Protocol):
    """The answer to a resource."""

    error_code: int
    error_message: str | None


_Result = TypeVar("_Result", bound=ResourceResult)


class Named:
    """The resources of a request, counted by name."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        """Count every resource once for all checks."""
        self._total = len(resources)
        self._counts = Counter(
            (resource.resource_type, resource.resource_name) for resource in resources
        )

    def check(self, resource: Resource) -> None:
        """Raise if the request has too many resources or names this one twice."""
        if self._total > _MOST_RESOURCES:
            raise InvalidRequest("too many resources in one request")
        if self._counts[resource.resource_type, resource.resource_name] > 1:
            raise InvalidRequest(f"{resource.resource_name!r} is named more than once")


def check_broker(call: Call, name: str) -> None:
    """Raise unless this is the id of this broker."""
    if name != str(call.engine.identity.broker_id):
        raise InvalidRequest(f"this is broker {call.engine.identity.broker_id}, not {name!r}")


def check_alterable(resource: Resource) -> None:
    """Raise unless settings of this resource can be changed by a request."""
    if resource.resource_type in (BROKER, BROKER_LOGGER):
        raise InvalidRequest(
            "broker settings are read-only: change the broker's configuration and restart it"
        )
    if resource.resource_type == GROUP:
        raise InvalidRequest("settings of groups are changed one by one: IncrementalAlterConfigs")
    if resource.resource_type != TOPIC:
        what = _WITHOUT.get(resource.resource_type, f"resources of type {resource.resource_type}")
        raise InvalidRequest(f"{what} have no settings here")


def check_once(names: Iterable[str]) -> None:
    """Raise if a setting is given twice."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidRequest(f"given more than once: {', '.join(twice)}")


async def alter_each(
    call: Call,
    result_type: Callable[[int, str | None, int, str], _Result],
    alter_one: Callable[[Call, Any], Awaitable[None]],
) -> list[_Result]:
    """Alter every resource of a request; each gets a result of its own."""
    requested: Sequence[Resource] = call.message.resources
    named = Named(requested)
    results = []
    async for resource in call.each(requested):
        result = result_type(0, None, resource.resource_type, resource.resource_name)
        results.append(result)
        try:
            named.check(resource)
            await alter_one(call, resource)
        except KafscaleError as problem:
            refuse(call, result, problem)
    return results


async def alter(call: Call, name: str, change: ConfigChange) -> None:
    """Change a topic's settings, or only check whether that could be done."""
    only_check: bool = call.message.validate_only
    work = call.engine.topics.change_configs(name, change, only_check=only_check)
    await in_time(call, work, ALTERED_WITHIN_S)


def refuse(call: Call, result: ResourceResult, problem: KafscaleError) -> None:
    """Put an error into a result."""
    result.error_code = code_of(problem)
    result.error_message = words_of(problem)
    client_errors.note(call, problem)
