"""What requests must be authorized for that share their form with no other API.

Next door: the common forms (requirements.py), which API asks for what (apis/).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kafscale.gateways.kafka import resources
from kafscale.gateways.kafka.access.requirements import (
    CODE_OF,
    EachRow,
    UnlessOnCluster,
    are_hidden,
    by_group,
    by_name,
    is_denied,
    itself,
    split,
)
from kafscale.gateways.kafka.calls.call import Call
from kafscale.gateways.kafka.calls.fetch_sessions import CLOSE
from kafscale.gateways.kafka.calls.share_sessions import FIRST_EPOCH
from kafscale.model.errors import UnknownTopicId
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, ResourceType
from kafscale.records.validation import is_transactional
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import (
    create_topics,
    delete_topics,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    init_producer_id,
    metadata,
    offset_fetch,
)
from kafscale.wire.kafka.schema import NO_UUID, Message

_READ, _WRITE = AccessOperation.READ, AccessOperation.WRITE
_CREATE, _DELETE = AccessOperation.CREATE, AccessOperation.DELETE
_DESCRIBE: Final = AccessOperation.DESCRIBE
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER

_GROUPS_FROM: Final = 8  # OffsetFetch names several groups
_WHOLE_ERROR_FROM: Final = 2  # OffsetFetch has an error for the group
_SEVERAL_KEYS_FROM: Final = 4  # FindCoordinator names several groups
_KIND_OF_KEY: Final = {0: _GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_KIND_OF_RESOURCE: Final = {
    resources.TOPIC: _TOPIC,
    resources.BROKER: _CLUSTER,
    resources.BROKER_LOGGER: _CLUSTER,
    resources.CLIENT_METRICS: _CLUSTER,
    resources.GROUP: _GROUP,
}


class MetadataTopics:
    """Topics that are named get an error; the handler leaves out denied ones of all topics."""

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        asked = call.message.topics
        if asked is None or (call.version == 0 and not asked):
            return None
        allowed, denied = split(call, _DESCRIBE, _TOPIC, asked, lambda row: _name_of(call, row))
        if denied:
            answers = [
                metadata.MetadataResponseTopic(CODE_OF[_TOPIC], row.name or "", row.topic_id)
                for row in denied
            ]
            call.message.topics = allowed
            # In version 0 no topics mean all of them, and these are not for this client.
            hides = call.version == 0 and not allowed
            call.amend(lambda response: _answer_topics(response, answers, hides=hides))
        return None


def _answer_topics(response: Any, answers: list[Any], *, hides: bool) -> None:
    response.topics = answers if hides else response.topics + answers


def _keep(call: Call, rows: list[Any]) -> None:
    """Leave out what the client may not describe."""
    rows[:] = [row for row in rows if call.allows(_DESCRIBE, _TOPIC, row.name or "")]


def _name_of(call: Call, row: Any) -> str | None:
    """The topic that a row names by its id or its name; None for an id that is not known."""
    return (row.name or "") if row.topic_id == NO_UUID else _name_by_id(call, row.topic_id)


def _name_by_id(call: Call, topic_id: bytes) -> str | None:
    try:
        return call.engine.topics.get_by_id(topic_id).name
    except UnknownTopicId:
        return None


class DescribedTopics:
    """Topics that are named get an error; the handler leaves out denied ones of all topics."""

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        asked = call.message.topics
        call.message.topics, denied = split(call, _DESCRIBE, _TOPIC, asked, by_name)
        if not denied:
            return None
        answers = [
            describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                CODE_OF[_TOPIC], row.name
            )
            for row in denied
        ]
        if not call.message.topics:  # that would mean all of them
            return describe_topic_partitions.DescribeTopicPartitionsResponse(topics=answers)
        call.amend(lambda response: response.topics.extend(answers))
        return None


class FetchTopics:
    """Topics by name, from version 13 on by id; an id that is not known is the handler's matter.

    A session has no topics that its client may not read: a client with such topics names all of
    its topics in every request, so that it is told of them each time.
    """

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        request = call.message

        def name_of(row: Any) -> str | None:
            return row.topic if row.topic_id == NO_UUID else _name_of(call, row)

        allowed, denied = split(call, _READ, _TOPIC, request.topics, name_of)
        if request.session_epoch > 0 and (denied or self._is_session_denied(call)):
            call.context.fetch_sessions.close(request.session_id)
            return fetch.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if denied:
            request.topics = allowed
            request.session_epoch = CLOSE
            answers = [
                fetch.FetchableTopicResponse(
                    row.topic,
                    row.topic_id,
                    [_unread(one.partition) for one in row.partitions],
                )
                for row in denied
            ]
            call.amend(lambda response: response.responses.extend(answers))
        return None

    def _is_session_denied(self, call: Call) -> bool:
        """Whether the client has lost the right to read a topic of its session."""
        session = call.context.fetch_sessions.find(call.message.session_id)
        topics = {topic for topic, _ in session.partitions} if session is not None else set()
        names = (one if isinstance(one, str) else _name_by_id(call, one) for one in topics)
        return any(is_denied(call, _READ, _TOPIC, name) for name in names)


@dataclass(frozen=True, slots=True)
class SharedTopics:
    """READ on the topics that a share session names by their ids; each gets its own answer."""

    refused: Callable[[Any, ErrorCode], Any]

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        request = call.message
        request.topics, denied = split(
            call, _READ, _TOPIC, request.topics, lambda row: _name_by_id(call, row.topic_id)
        )
        if denied:
            answers = [self.refused(row, CODE_OF[_TOPIC]) for row in denied]
            call.amend(lambda response: response.responses.extend(answers))
        return None


@dataclass(frozen=True, slots=True)
class ShareSessionTopics:
    """READ on the topics that a share session has had since earlier requests.

    The handler hands back what the member has of them; here they get their answers.
    """

    refused: Callable[[bytes, int, ErrorCode], Any]

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        request = call.message
        if request.share_session_epoch == FIRST_EPOCH:
            return None
        key = (request.group_id or "", request.member_id or "")
        named = {
            (row.topic_id, one.partition_index) for row in request.topics for one in row.partitions
        }
        places = [one for one in call.context.share_sessions.places(key) if one not in named]
        _, denied = split(call, _READ, _TOPIC, places, lambda place: _name_by_id(call, place[0]))
        if denied:
            answers = [self.refused(*place, CODE_OF[_TOPIC]) for place in denied]
            call.amend(lambda response: response.responses.extend(answers))
        return None


def may_read(call: Call, topic_id: bytes) -> bool:
    """Whether the client may read a topic; an id that is not known is not denied."""
    name = _name_by_id(call, topic_id)
    return name is None or call.allows(_READ, _TOPIC, name)


@dataclass(frozen=True, slots=True)
class SubscribedTopics:
    """A client may subscribe by name only to topics that it may know of."""

    refused: Callable[[Call, ErrorCode], Message]

    def check(self, call: Call) -> Message | None:
        """Answer at once if a topic is not the client's to see."""
        if are_hidden(call, call.message.subscribed_topic_names or ()):
            return self.refused(call, CODE_OF[_TOPIC])
        return None


class DeletedTopics:
    """Topics by name; from version 6 on also by id, which is answered without the name.

    A client that may delete on the cluster may delete every topic.
    """

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        request = call.message
        if call.allows(_DELETE, _CLUSTER, CLUSTER_NAME):
            return None
        named, unnamed = split(call, _DELETE, _TOPIC, request.topic_names, itself)
        rows, denied = split(call, _DELETE, _TOPIC, request.topics, lambda row: _name_of(call, row))
        if unnamed or denied:
            request.topic_names, request.topics = named, rows
            answers = [
                delete_topics.DeletableTopicResult(name=name, error_code=CODE_OF[_TOPIC])
                for name in unnamed
            ]
            answers += [
                delete_topics.DeletableTopicResult(row.name, row.topic_id, CODE_OF[_TOPIC])
                for row in denied
            ]
            call.amend(lambda response: response.responses.extend(answers))
        return None


class CreatedTopics:
    """CREATE on the cluster, or on the topic; DESCRIBE_CONFIGS to be shown its settings."""

    _creating = UnlessOnCluster(
        _CREATE,
        EachRow(
            _CREATE,
            _TOPIC,
            "topics",
            by_name,
            "topics",
            lambda row, code: create_topics.CreatableTopicResult(row.name, error_code=code),
        ),
    )

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        self._creating.check(call)
        hidden = {
            row.name
            for row in call.message.topics
            if not call.allows(AccessOperation.DESCRIBE_CONFIGS, _TOPIC, row.name)
        }
        if hidden:
            call.amend(lambda response: _hide_configs(response, hidden))
        return None


def _hide_configs(response: Any, names: set[str]) -> None:
    for row in response.topics:
        if row.name in names and not row.error_code:
            row.num_partitions = row.replication_factor = -1
            row.configs = []
            row.topic_config_error_code = CODE_OF[_TOPIC]


class NewProducer:
    """WRITE on the transactional id; without one, IDEMPOTENT_WRITE or WRITE on some topic."""

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        name = call.message.transactional_id
        kind = ResourceType.TRANSACTIONAL_ID
        if name is not None:
            is_refused = is_denied(call, _WRITE, kind, name)
        else:
            kind = _CLUSTER
            is_refused = not call.allows_any(_WRITE, _TOPIC) and is_denied(
                call, AccessOperation.IDEMPOTENT_WRITE, _CLUSTER, CLUSTER_NAME
            )
        if not is_refused:
            return None
        return init_producer_id.InitProducerIdResponse(error_code=CODE_OF[kind], producer_epoch=-1)


@dataclass(frozen=True, slots=True)
class TransactionalWrites:
    """WRITE on the transactional id, for records of a transaction; else all rows are refused."""

    refused: Callable[[Any, ErrorCode], Any]

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        kind, rows = ResourceType.TRANSACTIONAL_ID, call.message.topic_data
        partitions = (one for row in rows for one in row.partition_data)
        # Without a name there is nothing that the client could be allowed.
        if any(is_transactional(one.records) for one in partitions) and is_denied(
            call, _WRITE, kind, call.message.transactional_id or ""
        ):
            call.message.topic_data = []
            answers = [self.refused(row, CODE_OF[kind]) for row in rows]
            call.amend(lambda response: response.responses.extend(answers))
        return None


class FetchedOffsets:
    """DESCRIBE on the group and on its topics; of all topics, denied ones are left out."""

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        request = call.message
        if call.version >= _GROUPS_FROM:
            self._check_groups(call)
            return None
        if is_denied(call, _DESCRIBE, _GROUP, request.group_id):
            return self._refused(call)
        if request.topics is None:
            call.amend(lambda response: _keep(call, response.topics))
            return None
        request.topics, denied = split(call, _DESCRIBE, _TOPIC, request.topics, by_name)
        if denied:
            answers = [_uncommitted(row, CODE_OF[_TOPIC]) for row in denied]
            call.amend(lambda response: response.topics.extend(answers))
        return None

    def _refused(self, call: Call) -> Message:
        code = CODE_OF[_GROUP]
        if call.version >= _WHOLE_ERROR_FROM:
            return offset_fetch.OffsetFetchResponse(error_code=code)
        topics = [_uncommitted(row, code) for row in call.message.topics]
        return offset_fetch.OffsetFetchResponse(topics=topics)

    def _check_groups(self, call: Call) -> None:
        request = call.message
        request.groups, denied = split(call, _DESCRIBE, _GROUP, request.groups, by_group)
        refused: dict[str, list[Any]] = {}
        for group in request.groups:
            if group.topics is not None:
                group.topics, rows = split(call, _DESCRIBE, _TOPIC, group.topics, by_name)
                refused[group.group_id] = [_uncommitted_in_group(row) for row in rows]

        def amend(response: Any) -> None:
            for group in response.groups:
                if group.group_id in refused:
                    group.topics.extend(refused[group.group_id])
                else:
                    _keep(call, group.topics)
            response.groups += [
                offset_fetch.OffsetFetchResponseGroup(row.group_id, [], CODE_OF[_GROUP])
                for row in denied
            ]

        call.amend(amend)


def _unread(partition: int) -> fetch.PartitionData:
    """No records, not null: librdkafka takes null for a broken answer, and asks without end."""
    code = CODE_OF[_TOPIC]
    return fetch.PartitionData(partition, code, high_watermark=-1, records=b"")


def _uncommitted(row: Any, code: ErrorCode) -> offset_fetch.OffsetFetchResponseTopic:
    return offset_fetch.OffsetFetchResponseTopic(
        row.name,
        [
            offset_fetch.OffsetFetchResponsePartition(one, -1, error_code=code)
            for one in row.partition_indexes
        ],
    )


def _uncommitted_in_group(row: Any) -> offset_fetch.OffsetFetchResponseTopics:
    return offset_fetch.OffsetFetchResponseTopics(
        row.name,
        [
            offset_fetch.OffsetFetchResponsePartitions(one, -1, error_code=CODE_OF[_TOPIC])
            for one in row.partition_indexes
        ],
    )


class ListedGroups:
    """All groups for a client that may describe the cluster, else those it may describe."""

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        if not call.allows(_DESCRIBE, _CLUSTER, CLUSTER_NAME):
            call.amend(lambda response: self._keep(call, response.groups))
        return None

    def _keep(self, call: Call, rows: list[Any]) -> None:
        rows[:] = [row for row in rows if call.allows(_DESCRIBE, _GROUP, row.group_id)]


class CoordinatorKeys:
    """DESCRIBE on the group or the transactional id; several of them from version 4 on."""

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        request = call.message
        kind = _KIND_OF_KEY.get(request.key_type)
        if kind is None:
            return None
        code = CODE_OF[kind]
        if call.version < _SEVERAL_KEYS_FROM:
            if is_denied(call, _DESCRIBE, kind, request.key):
                return find_coordinator.FindCoordinatorResponse(
                    error_code=code, node_id=-1, port=-1
                )
            return None
        request.coordinator_keys, denied = split(
            call, _DESCRIBE, kind, request.coordinator_keys, itself
        )
        if denied:
            answers = [find_coordinator.Coordinator(key, -1, "", -1, code) for key in denied]
            call.amend(lambda response: response.coordinators.extend(answers))
        return None


class ConfigResources:
    """An operation on the settings of topics and groups, or of brokers, which are the cluster's."""

    def __init__(self, operation: AccessOperation, answers: str, result_type: Any) -> None:
        """`answers`: the field of the response; `result_type`: of a row in it."""
        self._operation = operation
        self._answers = answers
        self._result_type = result_type

    def check(self, call: Call) -> Message | None:
        """See call.Requirement."""
        allowed, answers = [], []
        for row in call.message.resources:
            kind = _KIND_OF_RESOURCE.get(row.resource_type)
            name = CLUSTER_NAME if kind is _CLUSTER else row.resource_name
            if kind is not None and is_denied(call, self._operation, kind, name):
                result = self._result_type(CODE_OF[kind], None, row.resource_type)
                result.resource_name = row.resource_name
                answers.append(result)
            else:
                allowed.append(row)
        if answers:
            call.message.resources = allowed
            call.amend(lambda response: getattr(response, self._answers).extend(answers))
        return None
