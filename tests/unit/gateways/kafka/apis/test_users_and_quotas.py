"""Quotas and how they are described; users of a broker that has none."""

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
async def test_quotas_are_set_described_and_removed(caller: Caller, version: int) -> None:
    entity = [EntityData("client-id", "c"), EntityData("user", None)]
    ops = [OpData("producer_byte_rate", 1000.0), OpData("request_percentage", 12.5)]
    assert await alter(caller, entity, ops, version) == (0, None)
    question = [ComponentData("user", 1, None), ComponentData("client-id", 0, "c")]
    answer = await caller.ask(DescribeClientQuotasRequest(question, True), version)
    (entry,) = answer.entries
    assert [(one.entity_type, one.entity_name) for one in entry.entity] == [
        ("client-id", "c"),
        ("user", None),
    ]
    assert {one.key: one.value for one in entry.values} == {
        "producer_byte_rate": 1000.0,
        "request_percentage": 12.5,
    }
    ops = [OpData("producer_byte_rate", 0.0, True), OpData("request_percentage", 0.0, True)]
    assert await alter(caller, entity, ops, version) == (0, None)
    answer = await caller.ask(DescribeClientQuotasRequest([]), version)
    assert (answer.error_code, answer.entries) == (0, [])


async def alter(
    caller: Caller, entity: list[EntityData], ops: list[OpData], version: int = 1
) -> tuple[int, str | None]:
    (row,) = (await caller.ask(AlterClientQuotasRequest([EntryData(entity, ops)]), version)).entries
    assert row.entity == entity
    return row.error_code, row.error_message


async def test_entries_succeed_and_fail_one_by_one(caller: Caller) -> None:
    rate = [OpData("producer_byte_rate", 1000.0)]
    entries = [
        EntryData([EntityData("user", "a")], rate),
        EntryData([EntityData("user", "b")], [OpData("producer_byte_rate", -1.0)]),
        EntryData([EntityData("user", "c")], rate),
        EntryData([EntityData("user", "c")], rate),
        EntryData([EntityData("user", "d")], [*rate, *rate]),
        EntryData([EntityData("colour", "red")], rate),
    ]
    answer = await caller.ask(AlterClientQuotasRequest(entries), 1)
    bad = ErrorCode.INVALID_REQUEST
    assert [row.error_code for row in answer.entries] == [0, bad, bad, bad, bad, bad]
    described = await caller.ask(DescribeClientQuotasRequest([ComponentData("user", 2, None)]), 1)
    assert [entry.entity[0].entity_name for entry in described.entries] == ["a"]


async def test_validating_changes_nothing(caller: Caller) -> None:
    entry = EntryData([EntityData("ip", None)], [OpData("connection_creation_rate", 5.0)])
    answer = await caller.ask(AlterClientQuotasRequest([entry], True), 1)
    assert answer.entries[0].error_code == 0
    assert (await caller.ask(DescribeClientQuotasRequest([]), 1)).entries == []


@pytest.mark.parametrize(
    ("component", "code"),
    [
        (ComponentData("colour", 2, None), ErrorCode.UNSUPPORTED_VERSION),
        (ComponentData("", 2, None), ErrorCode.INVALID_REQUEST),
        (ComponentData("user", 0, None), ErrorCode.INVALID_REQUEST),
        (ComponentData("user", 7, None), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_questions_that_make_no_sense_get_an_error(
    caller: Caller, component: ComponentData, code: ErrorCode
) -> None:
    answer = await caller.ask(DescribeClientQuotasRequest([component]), 1)
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message


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
    twice, unknown = ErrorCode.DUPLICATE_RESOURCE, ErrorCode.RESOURCE_NOT_FOUND
    assert found == [("bob", twice), ("eve", unknown)]
