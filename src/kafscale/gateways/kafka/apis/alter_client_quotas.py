"""AlterClientQuotas: API 49, versions 0-1. Quotas are not supported: every entry is refused."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResult,
)

API_KEY: Final = AlterClientQuotasRequest.api_key
VERSIONS: Final = AlterClientQuotasRequest.versions


def _refused(call: Call, code: ErrorCode, why: str | None = None) -> AlterClientQuotasResponse:
    request: AlterClientQuotasRequest = call.message
    results = [EntryResult(code, why, row.entity) for row in request.entries]
    return AlterClientQuotasResponse(entries=results)


ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.ALTER_CONFIGS, ResourceType.CLUSTER, cluster, _refused),
)


def answer(call: Call) -> Answer:
    """Refuse every entry."""
    return _refused(call, ErrorCode.UNSUPPORTED_VERSION, "This broker has no client quotas.")
