"""The step before every request: what it refuses, what it leaves alone, and what it writes down.

That a proxy answers as Apache Kafka does is in tests/e2e/test_proxy_access.py.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from kafscale.access.acls import AclBinding, PatternType, Permission
from kafscale.access.decision import AclAuthorizer, AclIndex
from kafscale.gateways.audit_log import AuditLog, Fields
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.kafka.access.acl_messages import read_binding
from kafscale.model.errors import InvalidAcl
from kafscale.model.security.access import AccessOperation, Principal, ResourceType
from kafscale.proxy.access.front import HIDDEN, FrontAccess, is_changed, versions_of
from kafscale.proxy.upstream.acls import read_bindings
from kafscale.testing.clock import ManualClock
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafscale.wire.kafka.messages.create_acls import AclCreation
from kafscale.wire.kafka.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kafscale.wire.kafka.messages.fetch import FetchRequest
from kafscale.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafscale.wire.kafka.schema import Message
from tests.support.access_table import REQUESTS, key_of

ALICE = Principal("User", "alice")
CLIENT: Any = SimpleNamespace(peer="10.0.0.1", listener="proxy", principal=ALICE)


class Front:
    """The step, with bindings that a test chooses, and the lines it wrote."""

    def __init__(self, *bindings: AclBinding, is_super: bool = False) -> None:
        self.lines: list[Fields] = []
        clock, index = ManualClock(), AclIndex()
        for binding in bindings:
            index.add(binding)
        self.access = FrontAccess(
            AclAuthorizer(index, [ALICE] if is_super else []),
            AuditLog(clock, lambda kind, outcome: None, self.lines.append),
            clock,
            ClientLog(clock),
        )

    def ask(self, message: Message, version: int) -> tuple[Any, Message | None]:
        sent = memoryview(b"".join(frame.request_frame(7, message, version, "tests"))[4:])
        header = frame.read_request(sent)
        call = self.access.call(CLIENT, header, frame.read_body(header, sent))
        return call, self.access.authorize(message.api_key, call)


def allow(operation: AccessOperation, kind: ResourceType, name: str) -> AclBinding:
    return AclBinding(kind, PatternType.LITERAL, name, ALICE, "*", operation, Permission.ALLOW)


OFFERED = {name: row for name, row in REQUESTS.items() if versions_of(key_of(name))}


@pytest.mark.parametrize("name", OFFERED)
def test_the_step_asks_nothing_of_a_broker(name: str) -> None:
    version, make = OFFERED[name]
    chosen = min(version, versions_of(key_of(name))[-1])
    Front().ask(make("new"), chosen)
    call, refusal = Front(is_super=True).ask(make("new"), chosen)
    assert refusal is None
    assert not call.errors


def test_what_cannot_be_checked_is_not_offered() -> None:
    assert not any(versions_of(key) for key in HIDDEN)
    for key in (38, 39, 40, 41, 57, 71, 72, 1000):  # tokens, features, telemetry, what is to come
        assert not versions_of(key)
    assert all(versions_of(key) for key in (17, 18, 36))  # logins come before any rule
    assert [versions_of(key)[-1] for key in (0, 1, 3, 20)] == [12, 12, 9, 5]


def test_a_denied_request_is_answered_and_written_down() -> None:
    front = Front(allow(AccessOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "x"))
    topics = [AddPartitionsToTxnTopic("own", [0]), AddPartitionsToTxnTopic("other", [1])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_topics=topics
    )
    _, refusal = Front(
        allow(AccessOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "x"),
        allow(AccessOperation.WRITE, ResourceType.TOPIC, "own"),
    ).ask(request, 3)
    rows = refusal.results_by_topic_v3_and_below  # type: ignore[union-attr]
    codes = [row.results_by_partition[0].partition_error_code for row in rows]
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    front.ask(request, 3)
    (line,) = front.lines
    assert (line["principal"], line["address"], line["api"]) == (
        "User:alice",
        "10.0.0.1",
        "AddPartitionsToTxn",
    )
    assert (line["operation"], line["resources"], line["count"]) == ("WRITE", ["own", "other"], 2)


def test_no_session_outlives_a_right() -> None:
    front = Front(is_super=True)
    _, refusal = front.ask(FetchRequest(session_id=7, session_epoch=1), 12)
    assert refusal.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # type: ignore[union-attr]
    call, refusal = front.ask(FetchRequest(), 12)
    assert refusal is None
    assert call.message.session_epoch == -1
    assert is_changed(1, call)


def test_topics_that_may_not_be_seen_are_left_out_of_all_topics() -> None:
    front = Front(allow(AccessOperation.READ, ResourceType.TOPIC, "own"))
    call, _ = front.ask(MetadataRequest(None, include_topic_authorized_operations=True), 9)
    answer = MetadataResponse(topics=[MetadataResponseTopic(0, one) for one in ("own", "other")])
    for amendment in call.amendments:
        amendment(answer)
    assert [row.name for row in answer.topics] == ["own"]
    read_and_describe = 1 << AccessOperation.READ | 1 << AccessOperation.DESCRIBE
    assert answer.topics[0].topic_authorized_operations == read_and_describe


def test_lists_of_the_upstream_are_read_whole_or_not_at_all() -> None:
    row = AclDescription("User:alice", "*", AccessOperation.READ, Permission.DENY)
    said = DescribeAclsResponse(resources=[DescribeAclsResource(2, "t", 4, [row])])
    creation = AclCreation(2, "t", 4, "User:alice", "*", AccessOperation.READ, Permission.DENY)
    assert read_bindings(said) == {read_binding(creation)}
    row.operation = 99
    with pytest.raises(InvalidAcl):
        read_bindings(said)
