"""Users are made and removed by requests, and log in with what was stored."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kafscale.access.scram import SCRAM_SHA_256, SCRAM_SHA_512, ScramMechanism
from kafscale.metadata import keys
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafscale.wire.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.unit.gateways.kafka.caller import Caller
from tests.unit.gateways.kafka.secured_broker import SecuredBroker, connected, log_in

SALT = b"salt of the user"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SecuredBroker]:
    async with SecuredBroker(tmp_path) as started:
        yield started


@pytest.fixture
async def caller(broker: SecuredBroker) -> AsyncIterator[Caller]:
    async with connected(broker) as one:
        await log_in(one)
        yield one


def upsertion(
    user: str, password: str, mechanism: ScramMechanism = SCRAM_SHA_256, **change: Any
) -> ScramCredentialUpsertion:
    iterations = change.get("iterations", 4096)
    stretched = mechanism.salted_password(password.encode(), SALT, max(iterations, 1))
    row = ScramCredentialUpsertion(user, mechanism.number, iterations, SALT, stretched)
    for name, value in change.items():
        setattr(row, {"number": "mechanism"}.get(name, name), value)
    return row


async def alter(caller: Caller, *changes: Any) -> dict[str, int]:
    old = [one for one in changes if isinstance(one, ScramCredentialDeletion)]
    new = [one for one in changes if isinstance(one, ScramCredentialUpsertion)]
    answer = await caller.ask(AlterUserScramCredentialsRequest(old, new), 0)
    return {row.user: row.error_code for row in answer.results}


async def described(caller: Caller, *users: str) -> dict[str, list[tuple[int, int]]]:
    asked = [UserName(user) for user in users] if users else None
    answer = await caller.ask(DescribeUserScramCredentialsRequest(asked), 0)
    return {
        row.user: [(one.mechanism, one.iterations) for one in row.credential_infos]
        for row in answer.results
    }


async def test_a_user_is_made_logs_in_and_is_removed(broker: SecuredBroker, caller: Caller) -> None:
    both = upsertion("bob", "one"), upsertion("bob", "two", SCRAM_SHA_512, iterations=8192)
    assert await alter(caller, *both) == {"bob": 0}
    assert await described(caller) == {
        "admin": [(1, 4096), (2, 4096)],
        "bob": [(1, 4096), (2, 8192)],
    }
    none_named = await caller.ask(DescribeUserScramCredentialsRequest([]), 0)  # as librdkafka asks
    assert {row.user for row in none_named.results} == {"admin", "bob"}
    for mechanism, password in (("SCRAM-SHA-256", "one"), ("SCRAM-SHA-512", "two")):
        async with connected(broker) as other:
            assert (await log_in(other, "bob", password, mechanism)).error_code == 0
    assert await alter(caller, ScramCredentialDeletion("bob", 1)) == {"bob": 0}
    assert await described(caller, "bob") == {"bob": [(2, 8192)]}
    async with connected(broker) as other:
        assert (await log_in(other, "bob", "one")).error_code != 0


async def test_only_salted_keys_are_stored(broker: SecuredBroker, caller: Caller) -> None:
    await alter(caller, upsertion("b/o b", "the-password"))
    kept = await broker.parts.engine._parts.metadata.find(keys.SCRAM)
    stretched = SCRAM_SHA_256.salted_password(b"the-password", SALT, 4096)
    for entry in kept:
        assert b"the-password" not in entry.value
        assert stretched not in entry.value
    assert f"{keys.SCRAM}SCRAM-SHA-256/b%2Fo%20b" in {entry.key for entry in kept}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([upsertion("bob", "x", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("bob", "x", iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("bob", "x", salt=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("bob", "x", salted_password=b"short")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("", "x")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("bob", "x", number=7)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion("bob", "x")] * 2, ErrorCode.DUPLICATE_RESOURCE),
        ([ScramCredentialDeletion("bob", 1)], ErrorCode.RESOURCE_NOT_FOUND),
        (
            [upsertion("bob", "x"), ScramCredentialDeletion("bob", 2)],
            ErrorCode.RESOURCE_NOT_FOUND,
        ),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_all_of_its_user(
    caller: Caller, changes: list[Any], code: ErrorCode
) -> None:
    assert set((await alter(caller, *changes)).values()) == {code}
    assert await described(caller) == {"admin": [(1, 4096), (2, 4096)]}


async def test_a_password_that_was_changed_survives_a_restart(
    broker: SecuredBroker, caller: Caller
) -> None:
    await alter(caller, upsertion("admin", "new"))
    await broker.stop()
    await broker.start()
    async with connected(broker) as other:
        assert (await log_in(other, password="new")).error_code == 0
