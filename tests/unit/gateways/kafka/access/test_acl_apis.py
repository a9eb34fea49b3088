"""DescribeAcls, CreateAcls and DeleteAcls: what they take, what they answer, what they refuse."""

from collections.abc import AsyncIterator

import pytest

from kafscale.model.security.access import Principal
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from kafscale.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafscale.wire.kafka.messages.describe_acls import DescribeAclsRequest
from tests.support import acl_cases
from tests.unit.gateways.kafka.access.guarded import Acting, guarded_config
from tests.unit.gateways.kafka.caller import Caller

EVERYTHING = DescribeAclsRequest(1, None, 1, None, None, 1, 1)


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    """A client that may do everything."""
    acting = Acting()
    async with (
        InProcessBroker(config=guarded_config(), authorizer=acting) as broker,
        Caller(broker.port) as connected,
    ):
        yield connected


def row(name: str, pattern: int = 3, principal: str = "User:alice") -> AclCreation:
    return AclCreation(2, name, pattern, principal, "*", 3, 3)


async def listed(caller: Caller, request: DescribeAclsRequest = EVERYTHING) -> list[str]:
    answer = await caller.ask(request, 3)
    assert answer.error_code == 0
    return [
        f"{resource.pattern_type} {resource.resource_name} {acl.principal}"
        for resource in answer.resources
        for acl in resource.acls
    ]


@pytest.mark.parametrize("version", range(4))
async def test_bindings_are_created_described_and_deleted(caller: Caller, version: int) -> None:
    created = await caller.ask(CreateAclsRequest([row("t"), row("u"), row("t")]), version)
    assert [result.error_code for result in created.results] == [0, 0, 0]
    assert await listed(caller) == ["3 t User:alice", "3 u User:alice"]
    only = await caller.ask(DescribeAclsRequest(2, "t", 3, "User:alice", "*", 3, 3), version)
    (resource,) = only.resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (2, "t", 3)
    (acl,) = resource.acls
    assert (acl.principal, acl.host, acl.operation, acl.permission_type) == (
        "User:alice",
        "*",
        3,
        3,
    )
    wanted = [
        DeleteAclsFilter(2, "t", 3, None, None, 1, 1),
        DeleteAclsFilter(2, "none", 3, None, None, 1, 1),
    ]
    deleted = await caller.ask(DeleteAclsRequest(wanted), version)
    assert [len(result.matching_acls) for result in deleted.filter_results] == [1, 0]
    assert deleted.filter_results[0].matching_acls[0].resource_name == "t"
    assert await listed(caller) == ["3 u User:alice"]


async def test_patterns_are_told_apart_and_matched(caller: Caller) -> None:
    rows = [row("orders", 3), row("ord", 4), row("*", 3), row("other", 4)]
    await caller.ask(CreateAclsRequest(rows), 3)
    assert await listed(caller, DescribeAclsRequest(2, "ord", 1, None, None, 1, 1)) == [
        "4 ord User:alice"
    ]
    matched = await listed(caller, DescribeAclsRequest(2, "orders", 2, None, None, 1, 1))
    assert matched == ["3 * User:alice", "3 orders User:alice", "4 ord User:alice"]
    assert await listed(caller, DescribeAclsRequest(2, None, 4, None, None, 1, 1)) == [
        "4 ord User:alice",
        "4 other User:alice",
    ]


async def test_odd_and_wrong_requests_get_the_code_that_is_listed(caller: Caller) -> None:
    codes = {
        name: await acl_cases.code_of(caller, request)
        for name, (request, _, _) in acl_cases.CASES.items()
    }
    assert codes == {name: expected for name, (_, _, expected) in acl_cases.CASES.items()}


async def test_a_wrong_row_does_not_stop_the_others(caller: Caller) -> None:
    answer = await caller.ask(CreateAclsRequest([row("a"), row(""), row("b")]), 3)
    assert [result.error_code for result in answer.results] == [0, ErrorCode.INVALID_REQUEST, 0]
    assert await listed(caller) == ["3 a User:alice", "3 b User:alice"]


async def test_requests_without_bound_are_refused(caller: Caller) -> None:
    answer = await caller.ask(CreateAclsRequest([row(f"t{n}") for n in range(10_001)]), 3)
    assert {result.error_code for result in answer.results} == {ErrorCode.INVALID_REQUEST}
    wanted = [DeleteAclsFilter(2, f"t{n}", 3, None, None, 1, 1) for n in range(1_001)]
    answer = await caller.ask(DeleteAclsRequest(wanted), 3)
    assert {result.error_code for result in answer.filter_results} == {ErrorCode.INVALID_REQUEST}
    long = row("x" * 30_000, principal="User:" + "y" * 30_000)
    answer = await caller.ask(CreateAclsRequest([long]), 3)
    assert answer.results[0].error_code == ErrorCode.INVALID_REQUEST
    assert await listed(caller) == []


async def test_without_an_authorizer_there_are_no_lists() -> None:
    async with InProcessBroker() as broker, Caller(broker.port) as caller:
        described = await caller.ask(EVERYTHING, 3)
        assert described.error_code == ErrorCode.SECURITY_DISABLED
        created = await caller.ask(CreateAclsRequest([row("t")]), 3)
        assert created.results[0].error_code == ErrorCode.SECURITY_DISABLED


async def test_a_client_without_a_login_is_anonymous_and_denied_by_default() -> None:
    async with InProcessBroker(config=guarded_config()) as broker, Caller(broker.port) as caller:
        assert (await caller.create("t")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        acls = broker.engine.acls
        assert acls is not None
        assert not acls.authorizer.allows_all
        assert (await caller.ask(EVERYTHING, 3)).error_code == (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        assert Principal("User", "ANONYMOUS") not in guarded_config().authorization.super_users
