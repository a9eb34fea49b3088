"""Every request of every user is answered as Apache Kafka answers it, as far as leave goes.

The table is Apache Kafka's own behaviour (tests/e2e/test_access_table.py). The few rows in which
this broker differs on purpose are listed here with the reason.
"""

from collections.abc import AsyncIterator

import pytest

from kafscale.engine.access.acls import Acls
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.access.acl_messages import read_binding
from kafscale.model.access import AccessOperation, Principal, ResourceType
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.support.access_table import (
    REQUESTS,
    TOPIC,
    USERS,
    acl_of,
    judge,
    key_of,
    read_answers,
)
from tests.unit.gateways.kafka.access.guarded import Acting, guarded_config
from tests.unit.gateways.kafka.caller import Caller

# APIs that need no leave: they come before the login, or are about the connection itself.
WITHOUT_LEAVE = {"ApiVersions", "SaslHandshake"}


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, str]]:
    return read_answers()


@pytest.fixture
async def acting() -> AsyncIterator[tuple[Acting, Caller]]:
    acting = Acting()
    async with InProcessBroker(config=guarded_config(), authorizer=acting) as broker:
        acls = broker.engine.acls
        assert acls is not None
        acting.inner = acls.authorizer
        granted = [acl_of(user, grant) for user, grants in USERS.items() for grant in grants]
        await acls.create(map(read_binding, granted))
        async with Caller(broker.port) as caller:
            assert (await caller.create(TOPIC)).error_code == 0
            version, make = REQUESTS["OffsetCommit"]
            assert "30" not in judge(await caller.ask(make("a"), version))
            yield acting, caller


def test_the_table_has_a_request_of_every_api() -> None:
    assert {router.NAMES[key_of(name)] for name in REQUESTS} | WITHOUT_LEAVE == set(
        router.NAMES.values()
    )


@pytest.mark.parametrize("name", REQUESTS)
async def test_every_user_is_answered_as_by_apache_kafka(
    name: str, acting: tuple[Acting, Caller], answers: dict[str, dict[str, str]]
) -> None:
    who, caller = acting
    version, make = REQUESTS[name]
    found = {}
    for number, user in enumerate(USERS):
        who.principal = Principal("User", user)
        found[user] = judge(await caller.ask(make(f"n-{number}"), version))
    expected = {user: answers[name].get(user, answers[name]["others"]) for user in USERS}
    assert found == expected
