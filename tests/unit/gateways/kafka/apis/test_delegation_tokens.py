"""Delegation tokens: who gets them, who may change them, and logging in with them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kafscale.access.delegation_tokens import password_of
from kafscale.engine.access import tokens
from kafscale.testing.clock import ManualClock
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kafscale.wire.kafka.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafscale.wire.kafka.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest
from kafscale.wire.kafka.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.unit.gateways.kafka.access.test_authorization import Rules
from tests.unit.gateways.kafka.caller import NOW_MS, Caller
from tests.unit.gateways.kafka.secured_broker import (
    SecuredBroker,
    authenticate,
    connected,
    handshake,
    log_in,
)

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock, rules: Rules) -> AsyncIterator[SecuredBroker]:
    async with SecuredBroker(tmp_path, clock=clock, authorizer=rules) as started:
        yield started


@pytest.fixture
async def caller(broker: SecuredBroker) -> AsyncIterator[Caller]:
    async with connected(broker) as one:
        await log_in(one)
        yield one


async def create(caller: Caller, *renewers: str, **fields: Any) -> Any:
    rows = [CreatableRenewers("User", name) for name in renewers]
    request = CreateDelegationTokenRequest(renewers=rows, max_lifetime_ms=-1)
    for name, value in fields.items():
        setattr(request, name, value)
    return await caller.ask(request, 3)


async def log_in_with(caller: Caller, token: Any, mechanism: str = "SCRAM-SHA-256") -> Any:
    password = password_of(token.hmac)
    return await log_in(caller, token.token_id, password, mechanism, ",tokenauth=true")


async def listed(caller: Caller, *owners: str) -> list[str]:
    rows = [DescribeDelegationTokenOwner("User", one) for one in owners] if owners else None
    answer = await caller.ask(DescribeDelegationTokenRequest(rows), 3)
    assert answer.error_code == 0
    return [row.token_id for row in answer.tokens]


async def test_a_token_logs_in_as_its_owner_until_it_expires(
    broker: SecuredBroker, caller: Caller, clock: ManualClock, rules: Rules
) -> None:
    token = await create(caller)
    assert (token.error_code, token.principal_name) == (0, "admin")
    assert (token.expiry_timestamp_ms, token.max_timestamp_ms) == (
        NOW_MS + DAY_MS,
        NOW_MS + 7 * DAY_MS,
    )
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        async with connected(broker) as other:
            said = await log_in_with(other, token, mechanism)
            assert (said.error_code, said.session_lifetime_ms) == (0, DAY_MS)
            rules.asked.clear()
            assert (await other.ask(MetadataRequest(None), 12)).brokers
            assert {str(principal) for principal, *_ in rules.asked} <= {"User:admin"}
    clock.advance_ms(DAY_MS)
    async with connected(broker) as other:
        assert (await log_in_with(other, token)).error_code != 0
    assert await listed(caller) == []


async def test_one_client_cannot_fill_the_store_with_tokens(
    caller: Caller, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_OF_ONE", 2)
    codes = [(await create(caller)).error_code for _ in range(3)]
    assert codes == [0, 0, ErrorCode.INVALID_REQUEST]
    clock.advance_ms(DAY_MS)
    assert (await create(caller)).error_code == 0, "those that have expired do not count"
    many = [f"{number}-{'x' * 100}" for number in range(100)]
    assert (await create(caller, *many)).error_code == ErrorCode.INVALID_REQUEST
    assert len(await listed(caller)) == 1


async def test_a_token_is_no_user_and_no_user_is_a_token(
    broker: SecuredBroker, caller: Caller
) -> None:
    token = await create(caller)
    async with connected(broker) as other:
        said = await log_in(other, token.token_id, password_of(token.hmac))
        assert said.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    async with connected(broker) as other:
        said = await log_in(other, extension=",tokenauth=true")
        assert said.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_client_that_came_by_a_token_gets_none(
    broker: SecuredBroker, caller: Caller
) -> None:
    token = await create(caller)
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    async with connected(broker) as other:
        await log_in_with(other, token)
        requests = (
            (CreateDelegationTokenRequest(), 3),
            (RenewDelegationTokenRequest(token.hmac, 1), 2),
            (ExpireDelegationTokenRequest(token.hmac, -1), 2),
            (DescribeDelegationTokenRequest(None), 3),
        )
        for request, version in requests:
            assert (await other.ask(request, version)).error_code == refused
    assert await listed(caller) == [token.token_id]


async def test_owner_and_renewers_change_it_and_others_do_not(
    broker: SecuredBroker, caller: Caller, rules: Rules, clock: ManualClock
) -> None:
    mine, for_paula = await create(caller), await create(caller, "paula")
    rules.denies_all = True
    async with connected(broker) as paula:
        await handshake(paula, "PLAIN")
        await authenticate(paula, b"\0paula\0secret")
        clock.advance_ms(1000)
        renewed = await paula.ask(RenewDelegationTokenRequest(for_paula.hmac, 2 * DAY_MS), 2)
        assert renewed.expiry_timestamp_ms == NOW_MS + 1000 + 2 * DAY_MS
        assert await listed(paula) == [for_paula.token_id]
        for request in (
            RenewDelegationTokenRequest(mine.hmac, DAY_MS),
            ExpireDelegationTokenRequest(mine.hmac, -1),
        ):
            answer = await paula.ask(request, 2)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        unknown = await paula.ask(RenewDelegationTokenRequest(b"unknown", DAY_MS), 2)
        assert unknown.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert (await caller.ask(ExpireDelegationTokenRequest(for_paula.hmac, -1), 2)).error_code == 0
    assert await listed(caller) == [mine.token_id]
    assert await listed(caller, "paula") == []


async def test_a_token_of_another_owner_needs_leave(
    broker: SecuredBroker, caller: Caller, rules: Rules
) -> None:
    other = {"owner_principal_type": "User", "owner_principal_name": "paula"}
    made = await create(caller, **other)
    assert (made.error_code, made.principal_name) == (0, "paula")
    assert made.token_requester_principal_name == "admin"
    rules.denies_all = True
    refused = await create(caller, **other)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    strange = await create(caller, owner_principal_type="Group", owner_principal_name="x")
    assert strange.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
