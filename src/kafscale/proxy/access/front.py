"""What a client may do: the Kafka door's own step, before a request is answered or passed on.

Here: a request as that step sees it, and what the door's handlers do by a client's rights beside
the step: topics, groups and transactions that an answer leaves out, operations that it shows.
A request that names topics by ids is not offered under rules, nor is one that the door has no
requirements for: what cannot be checked does not pass.
Next door: the step and the requirements (gateways/kafka/access/), whose rules they are
(upstream/acls.py).
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from kafscale.gateways.audit_log import AuditLog
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.access.authorization import (
    authorize,
    authorized_operations,
    may_create,
    may_describe,
    operations_on_cluster,
)
from kafscale.gateways.kafka.access.requirements import is_denied
from kafscale.gateways.kafka.apis import add_partitions_to_txn
from kafscale.gateways.kafka.calls.call import Call, KafkaContext
from kafscale.gateways.kafka.calls.fetch_sessions import CLOSE, FetchSessions
from kafscale.gateways.kafka.calls.login import LOGIN_APIS
from kafscale.gateways.workers import WorkQueue
from kafscale.model.clock import Clock
from kafscale.model.security.access import AccessOperation, Authorizer, ResourceType
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.header import RequestHeader
from kafscale.wire.kafka.messages.fetch import FetchResponse
from kafscale.wire.kafka.schema import Message

if TYPE_CHECKING:
    from kafscale.engine.engine import Engine

# Answers of these need partitions that the server assigns, or name physical partitions only:
# groups of KIP-848, of shares and of streams; DescribeTopicPartitions.
HIDDEN: Final = frozenset({68, 69, 75, 76, 77, 78, 79, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92})

_PRODUCE, _FETCH, _METADATA, _DELETE_TOPICS, _ADD_PARTITIONS = 0, 1, 3, 20, 24
_API_VERSIONS, _DESCRIBE_GROUPS, _DESCRIBE_CLUSTER = 18, 15, 60
_DESCRIBE_TRANSACTIONS, _LIST_TRANSACTIONS = 65, 66
CHANGES_ACLS: Final = frozenset({30, 31})
# Later versions name topics by their ids; Metadata before 4 creates topics without being asked to.
_VERSIONS: Final = {
    _PRODUCE: range(13),
    _FETCH: range(13),
    _METADATA: range(4, 10),
    _DELETE_TOPICS: range(6),
}
_REQUIREMENTS: Final = {
    api.API_KEY: api.REQUIREMENTS
    for api in router.APIS
    if api.REQUIREMENTS or api.API_KEY in {_DESCRIBE_CLUSTER, _LIST_TRANSACTIONS}
}
_CREATE, _DESCRIBE = AccessOperation.CREATE, AccessOperation.DESCRIBE
_WRITE: Final = AccessOperation.WRITE
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP


def versions_of(api_key: int) -> range:
    """The versions of an API whose requests can be checked; an empty range: none."""
    if api_key in LOGIN_APIS or api_key == _API_VERSIONS:
        return BY_KEY[api_key].versions
    if api_key not in _REQUIREMENTS or api_key in HIDDEN:
        return range(0)
    ours, most = BY_KEY[api_key].versions, _VERSIONS.get(api_key)
    return ours if most is None else range(max(ours[0], most[0]), min(ours[-1], most[-1]) + 1)


class FrontAccess:
    """Checks the requests of all clients."""

    def __init__(
        self, authorizer: Authorizer, audit: AuditLog, clock: Clock, client_log: ClientLog
    ) -> None:
        self._clock = clock
        self._work = WorkQueue(asyncio.Semaphore(1))
        # The step looks at who asks for what. It has no use for an engine, and there is none.
        engine = cast("Engine", None)
        self._context = KafkaContext(
            engine,
            cast(FetchSessions, None),
            0.0,
            (),
            client_log,
            authorizer=authorizer,
            audit=audit,
        )

    def call(self, connection: Connection, request: RequestHeader, message: Message) -> Call:
        """A request of a client as the step sees it."""
        return Call(
            self._context,
            message,
            request.version,
            self._clock.elapsed_s(),
            self._work,
            {},
            connection.peer,
            request.client_id or "",
            connection.listener,
            connection.principal,
        )

    def authorize(self, api_key: int, call: Call) -> Message | None:
        """Take out what the client may not do; gives the answer if nothing is left."""
        if api_key == _FETCH and call.message.session_id:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        prepare = _BESIDE.get(api_key)
        refusal = None if prepare is None else prepare(call)
        if refusal is None:
            refusal = authorize(_REQUIREMENTS[api_key], call)
        if refusal is None and api_key == _ADD_PARTITIONS:
            refusal = _add_partitions(call)  # as in Kafka: first the transactional id, then topics
        _tell_denials(call)
        return refusal


def _tell_denials(call: Call) -> None:
    for error in call.errors.values():
        if error.denial is not None:
            call.context.audit.write(replace(error.denial, count=error.count))
    call.errors.clear()


def is_changed(api_key: int, call: Call) -> bool:
    """Whether the request is another one than the client sent, or its answer must be read."""
    return call.amendments is not None or api_key == _FETCH or api_key in CHANGES_ACLS


# -- what the door's handlers do -------------------------------------------------------------------


def _fetch(call: Call) -> None:
    # A session would be the upstream's, and outlive the right to read.
    call.message.session_epoch = CLOSE


def _metadata(call: Call) -> None:
    asked = call.message
    creates = {
        row.name
        for row in asked.topics or ()
        if asked.allow_auto_topic_creation and not may_create(call, row.name or "")
    }
    if creates:
        asked.allow_auto_topic_creation = False

    def amend(answer: Any) -> None:
        answer.topics = [row for row in answer.topics if may_describe(call, row.name or "")]
        for row in answer.topics:
            is_absent = row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if row.name in creates and is_absent and is_denied(call, _CREATE, _TOPIC, row.name):
                row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            row.topic_authorized_operations = authorized_operations(
                call, _TOPIC, row.name or "", asked=asked.include_topic_authorized_operations
            )
        answer.cluster_authorized_operations = operations_on_cluster(
            call, asked=asked.include_cluster_authorized_operations
        )
        _tell_denials(call)

    call.amend(amend)


def _describe_groups(call: Call) -> None:
    asked = call.message.include_authorized_operations

    def amend(answer: Any) -> None:
        for row in answer.groups:
            row.authorized_operations = authorized_operations(
                call, _GROUP, row.group_id, asked=asked
            )

    call.amend(amend)


def _describe_cluster(call: Call) -> None:
    asked = call.message.include_cluster_authorized_operations

    def amend(answer: Any) -> None:
        answer.cluster_authorized_operations = operations_on_cluster(call, asked=asked)

    call.amend(amend)


def _describe_transactions(call: Call) -> None:
    def amend(answer: Any) -> None:
        for row in answer.transaction_states:
            row.topics = [one for one in row.topics if may_describe(call, one.topic)]

    call.amend(amend)


def _list_transactions(call: Call) -> None:
    def amend(answer: Any) -> None:
        answer.transaction_states = [
            row
            for row in answer.transaction_states
            if call.allows(_DESCRIBE, ResourceType.TRANSACTIONAL_ID, row.transactional_id)
        ]

    call.amend(amend)


def _add_partitions(call: Call) -> Message | None:
    denied = {
        topic.name
        for topic in call.message.v3_and_below_topics
        if is_denied(call, _WRITE, _TOPIC, topic.name)
    }
    if not denied:
        return None

    def code_of(topic: str, _partition: int) -> ErrorCode:
        is_denied = topic in denied
        return (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else ErrorCode.OPERATION_NOT_ATTEMPTED
        )

    return add_partitions_to_txn.respond(call, code_of)


_BESIDE: Final[dict[int, Callable[[Call], Message | None]]] = {
    _FETCH: _fetch,
    _METADATA: _metadata,
    _DESCRIBE_GROUPS: _describe_groups,
    _DESCRIBE_CLUSTER: _describe_cluster,
    _DESCRIBE_TRANSACTIONS: _describe_transactions,
    _LIST_TRANSACTIONS: _list_transactions,
}
