"""AlterClientQuotas: API 49, versions 0-1. Entries succeed or fail one by one."""

from collections import Counter
from typing import Final

from kafscale.access.quotas import entity_of
from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)

API_KEY: Final = AlterClientQuotasRequest.api_key
VERSIONS: Final = AlterClientQuotasRequest.versions


def _refused(call: Call, code: ErrorCode) -> AlterClientQuotasResponse:
    request: AlterClientQuotasRequest = call.message
    return AlterClientQuotasResponse(
        entries=[EntryResult(code, None, row.entity) for row in request.entries]
    )


ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.ALTER_CONFIGS, ResourceType.CLUSTER, cluster, _refused),
)


def answer(call: Call) -> Answer:
    """Change the quotas of every entity, each with its own result."""
    return _answer(call)


async def _answer(call: Call) -> AlterClientQuotasResponse:
    request: AlterClientQuotasRequest = call.message
    names = Counter(_identity(row) for row in request.entries)
    results = []
    async for row in call.each(request.entries):
        result = EntryResult(entity=row.entity)
        results.append(result)
        try:
            if names[_identity(row)] > 1:
                raise InvalidRequest("an entity is named twice")
            await _alter(call, row)
        except KafscaleError as problem:
            result.error_code = code_of(problem)
            result.error_message = words_of(problem)
            client_errors.note(call, problem)
    return AlterClientQuotasResponse(entries=results)


def _identity(row: EntryData) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in row.entity)


async def _alter(call: Call, row: EntryData) -> None:
    entity = entity_of((part.entity_type, part.entity_name) for part in row.entity)
    changes = {op.key: None if op.remove else op.value for op in row.ops}
    if len(changes) < len(row.ops):
        raise InvalidRequest("a quota is named twice")
    only_check = call.message.validate_only
    await call.engine.quotas.alter(entity, changes, only_check=only_check)
