import pytest

from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from kafscale.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafscale.wire.kafka.messages.describe_acls import DescribeAclsRequest
from tests.unit.gateways.kafka.caller import Caller

DISABLED = ErrorCode.SECURITY_DISABLED
VERSIONS = pytest.mark.parametrize("version", range(4))


@VERSIONS
async def test_acls_cannot_be_described_without_an_authorizer(caller: Caller, version: int) -> None:
    answer = await caller.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), version)
    assert (answer.error_code, answer.resources) == (DISABLED, [])
    assert "authorizer" in answer.error_message


@VERSIONS
async def test_every_creation_and_every_filter_is_refused_by_itself(
    caller: Caller, version: int
) -> None:
    rows = [AclCreation(2, name, 3, "User:a", "*", 3, 3) for name in ("t", "u")]
    answer = await caller.ask(CreateAclsRequest(rows), version)
    assert [row.error_code for row in answer.results] == [DISABLED, DISABLED]
    filters = [DeleteAclsFilter(2, "t", 3, None, None, 1, 1)]
    answer = await caller.ask(DeleteAclsRequest(filters), version)
    assert [(row.error_code, row.matching_acls) for row in answer.filter_results] == [
        (DISABLED, [])
    ]
