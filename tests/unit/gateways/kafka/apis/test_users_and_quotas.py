"""What a broker without users and quotas answers about them."""

import pytest

from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kafscale.wire.kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kafscale.wire.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.unit.gateways.kafka.caller import Caller

VERSIONS = pytest.mark.parametrize("version", [0, 1])


@VERSIONS
async def test_no_entity_has_a_quota(caller: Caller, version: int) -> None:
    request = DescribeClientQuotasRequest([ComponentData("client-id", 2, None)])
    answer = await caller.ask(request, version)
    assert (answer.error_code, answer.entries) == (0, [])


@VERSIONS
async def test_a_quota_is_refused_with_a_reason(caller: Caller, version: int) -> None:
    entity = [EntityData("client-id", "c")]
    request = AlterClientQuotasRequest([EntryData(entity, [OpData("producer_byte_rate", 1000.0)])])
    (row,) = (await caller.ask(request, version)).entries
    assert (row.error_code, row.entity) == (ErrorCode.UNSUPPORTED_VERSION, entity)
    assert "quotas" in row.error_message


@pytest.mark.parametrize("users", [None, []])
async def test_there_are_no_users_with_credentials(
    caller: Caller, users: list[UserName] | None
) -> None:
    answer = await caller.ask(DescribeUserScramCredentialsRequest(users), 0)
    assert (answer.error_code, answer.results) == (0, [])


async def test_a_user_that_is_named_has_no_credentials(caller: Caller) -> None:
    users = [UserName("bob"), UserName("eve"), UserName("bob")]
    answer = await caller.ask(DescribeUserScramCredentialsRequest(users), 0)
    found = [(row.user, row.error_code) for row in answer.results]
    assert found == [(name, ErrorCode.RESOURCE_NOT_FOUND) for name in ("bob", "eve")]
