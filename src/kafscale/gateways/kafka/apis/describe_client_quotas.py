"""DescribeClientQuotas: API 48, versions 0-1.

A filter has up to one component per type of entity: a name, the default, or any of them. A strict
filter leaves out entities with further types.
"""

from typing import Final

from kafscale.access.quotas import EntityFilter
from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

API_KEY: Final = DescribeClientQuotasRequest.api_key
VERSIONS: Final = DescribeClientQuotasRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE_CONFIGS,
        ResourceType.CLUSTER,
        cluster,
        error_alone(DescribeClientQuotasResponse),
    ),
)

_EXACT, _DEFAULT, _ANY = 0, 1, 2


def answer(call: Call) -> Answer:
    """List the entities that the filter asks for, with their quotas."""
    return _answer(call)


async def _answer(call: Call) -> DescribeClientQuotasResponse:
    request: DescribeClientQuotasRequest = call.message
    try:
        filters = [_filter(row) for row in request.components]
        found = call.engine.quotas.find(filters, is_strict=request.strict)
        entries = [
            EntryData(
                [EntityData(kind, name) for kind, name in entity],
                [ValueData(key, value) for key, value in values.items()],
            )
            async for entity, values in call.each(found)
        ]
    except KafscaleError as problem:
        client_errors.note(call, problem)
        code, words = code_of(problem), words_of(problem)
        return DescribeClientQuotasResponse(error_code=code, error_message=words, entries=None)
    return DescribeClientQuotasResponse(entries=entries)


def _filter(row: ComponentData) -> EntityFilter:
    if row.match_type == _EXACT and row.match is not None:
        return EntityFilter(row.entity_type, row.match)
    if row.match_type in (_DEFAULT, _ANY) and row.match is None:
        return EntityFilter(row.entity_type, is_any=row.match_type == _ANY)
    raise InvalidRequest("a filter asks for a name, for the default (1) or for any (2)")
