"""Quotas of clients, asked of brokers. The client library has no verb for them.

Next door: the connection (admin/brokers/wire_requests.py), users (users.py).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient

from kafscale.admin.brokers.wire_requests import ask_broker, list_addresses
from kafscale.admin.errors import AdminError
from kafscale.wire.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_VERSION: Final = 1


class QuotaFacts(NamedTuple):
    """What a client, a user or both of them may use. None as a name: all that have none."""

    entity: dict[str, str | None]
    values: dict[str, float]


def list_quotas(admin: AdminClient, settings: Mapping[str, Any]) -> list[QuotaFacts]:
    """Every quota; `settings` are those of the client."""
    address = next(iter(list_addresses(admin).values()))
    answer = ask_broker(
        address, settings, DescribeClientQuotasRequest(), DescribeClientQuotasResponse, _VERSION
    )
    if answer.error_code:
        raise AdminError(answer.error_message or "quotas were refused", answer.error_code)
    return [
        QuotaFacts(
            {one.entity_type: one.entity_name for one in entry.entity},
            {one.key: one.value for one in entry.values},
        )
        for entry in answer.entries or ()
    ]
