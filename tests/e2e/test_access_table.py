"""The table of what each API must be authorized for is Apache Kafka's own behaviour.

KAFSCALE_TEST_AGAINST=apache compares the table with a real Apache Kafka, as it does for the tests
of clients. KAFSCALE_WRITE_ACCESS_TABLE=1 writes the table anew.
"""

import asyncio
import json
import os
import struct
from pathlib import Path

import pytest

from kafscale.wire.kafka.messages.create_acls import CreateAclsRequest
from kafscale.wire.kafka.messages.describe_acls import DescribeAclsRequest
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.support import acl_cases
from tests.support.access_requests import with_topic_id
from tests.support.access_table import (
    ANSWERS,
    REQUESTS,
    TOPIC,
    USERS,
    acl_of,
    doomed,
    judge,
    name_for,
    pack,
    read_answers,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.unit.gateways.kafka.caller import Caller

WRITES = os.environ.get("KAFSCALE_WRITE_ACCESS_TABLE") == "1"

# The broker itself is ANONYMOUS on its plain listeners; users come in by SASL.
SETTINGS = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL://127.0.0.1:{sasl}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
listener.name.sasl.sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required {users};
"""


class GuardedKafka(ApacheKafka):
    """Apache Kafka with its StandardAuthorizer and one user per row of USERS."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.sasl_port = free_port()

    def prepare(self) -> None:
        users = " ".join(f'user_{name}="{name}"' for name in USERS)
        self.more_settings = SETTINGS.format(
            port=self.port, controller=self._controller_port, sasl=self.sasl_port, users=users
        )
        super().prepare()


class User(Caller):
    """A connection that has logged in by SASL/PLAIN, in the old form without SaslAuthenticate."""

    async def log_in(self, name: str) -> None:
        assert (await self.ask(SaslHandshakeRequest("PLAIN"), 0)).error_code == 0
        token = f"\0{name}\0{name}".encode()
        self.writer.write(struct.pack(">i", len(token)) + token)
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        await self.reader.readexactly(size)


async def judge_apache(kafka: GuardedKafka) -> dict[str, dict[str, str]]:
    async with Caller(kafka.port) as admin:
        created = await admin.create(TOPIC)
        assert created.error_code == 0
        for number in range(len(USERS)):
            assert (await admin.create(doomed(name_for(number)))).error_code == 0
        acls = [acl_of(user, grant) for user, grants in USERS.items() for grant in grants]
        results = (await admin.ask(CreateAclsRequest(acls), 3)).results
        assert {row.error_code for row in results} == {0}
        version, make = REQUESTS["FindCoordinator of groups"]
        while (await admin.ask(make("a"), version)).coordinators[0].error_code:
            await asyncio.sleep(0.2)  # the topic of the offsets is being made
        version, make = REQUESTS["OffsetCommit"]
        while (await admin.ask(make("a"), version)).topics[0].partitions[0].error_code:
            await asyncio.sleep(0.2)
        while (await admin.ask(acls_seen(), 3)).resources == []:
            await asyncio.sleep(0.1)
    judged: dict[str, dict[str, str]] = {name: {} for name in REQUESTS}
    for number, user in enumerate(USERS):
        async with User(kafka.sasl_port) as caller:
            await caller.log_in(user)
            for name, (version, make) in REQUESTS.items():
                request = with_topic_id(make(name_for(number)), created.topic_id)
                judged[name][user] = judge(await caller.ask(request, version))
    return judged


def acls_seen() -> DescribeAclsRequest:
    """A question for the last access control list that was created."""
    last = [user for user, grants in USERS.items() if grants][-1]
    return DescribeAclsRequest(1, None, 1, f"User:{last}", None, 1, 1)


async def answer_cases(port: int) -> dict[str, int]:
    codes = {}
    for name, (request, _, _) in acl_cases.CASES.items():
        async with Caller(port) as caller:
            codes[name] = await acl_cases.code_of(caller, request)
    return codes


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("KAFSCALE_TEST_AGAINST") != "apache" and not WRITES,
    reason="compares the table with Apache Kafka, for KAFSCALE_TEST_AGAINST=apache",
)
def test_the_table_is_what_apache_kafka_answers() -> None:
    try:
        kafka = GuardedKafka()
    except Unavailable as reason:
        pytest.skip(f"Apache Kafka: {reason}")
    with kafka:
        found = pack(asyncio.run(judge_apache(kafka)))
        codes = asyncio.run(answer_cases(kafka.port))
    if WRITES:
        ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == read_answers()
    assert codes == {name: row[1] for name, row in acl_cases.CASES.items()}
