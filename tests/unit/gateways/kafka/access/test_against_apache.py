"""Every request of every user is answered as Apache Kafka answers it, as far as leave goes.

The table is Apache Kafka's own behaviour (tests/e2e/test_access_table.py).
"""

from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.access.acl_messages import read_binding
from kafscale.model.security.access import Principal
from kafscale.testing.in_process import InProcessBroker
from tests.support.access_requests import with_topic_id
from tests.support.access_table import (
    REQUESTS,
    TOPIC,
    USERS,
    acl_of,
    doomed,
    judge,
    key_of,
    name_for,
    read_answers,
)
from tests.unit.gateways.kafka.access.guarded import Acting, guarded_config
from tests.unit.gateways.kafka.caller import Caller

# APIs that need no leave: they come before the login, or are about the connection itself.
WITHOUT_LEAVE = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}

# APIs of tokens, whose answers depend on more than leave: their own tests ask for it.
OF_TOKENS = {
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
}

# Where there is neither group nor session, one of the two looks for it first, and the other for
# leave: what is answered here, and what Apache Kafka answers. No client learns more by it.
DIFFERENT: dict[tuple[str, str], tuple[str, str]] = {
    **{
        ("DeleteShareGroupOffsets", user): ("29", "served")
        for user in ("GROUP.ALL", "GROUP.DELETE")
    },
    **{
        ("ShareAcknowledge", user): ("29", "served")
        for user in ("GROUP.ALL", "GROUP.READ", "TRANSACTIONAL_ID.WRITE-and-GROUP.READ")
    },
    **{
        ("DescribeShareGroupOffsets", user): ("served", "29")
        for user in (
            "GROUP.ALL",
            "GROUP.DELETE",
            "GROUP.DESCRIBE",
            "GROUP.READ",
            "TRANSACTIONAL_ID.WRITE-and-GROUP.READ",
        )
    },
}


def test_the_table_has_a_request_of_every_api() -> None:
    asked = {router.NAMES[key_of(name)] for name in REQUESTS}
    assert set(router.NAMES.values()) - asked <= WITHOUT_LEAVE | OF_TOKENS
    assert read_answers().keys() == REQUESTS.keys()


async def test_every_user_is_answered_as_by_apache_kafka() -> None:
    answers, acting = read_answers(), Acting()
    different: dict[tuple[str, str], tuple[str, str]] = {}
    async with (
        InProcessBroker(config=guarded_config(), authorizer=acting) as broker,
        Caller(broker.port) as caller,
    ):
        acls = broker.engine.acls
        assert acls is not None
        granted = [acl_of(user, grant) for user, grants in USERS.items() for grant in grants]
        await acls.create(map(read_binding, granted))
        acting.inner = acls.authorizer
        created = await caller.create(TOPIC)
        assert created.error_code == 0
        for number in range(len(USERS)):
            assert (await caller.create(doomed(name_for(number)))).error_code == 0
        version, make = REQUESTS["OffsetCommit"]
        assert "30" not in judge(await caller.ask(make("a"), version))
        for number, user in enumerate(USERS):
            acting.principal = Principal("User", user)
            for name, (version, make) in REQUESTS.items():
                request = with_topic_id(make(name_for(number)), created.topic_id)
                found = judge(await caller.ask(request, version))
                expected = answers[name].get(user, answers[name]["others"])
                if found != expected:
                    different[name, user] = (found, expected)
    assert different == DIFFERENT
