"""The commands of Pulsar's binary protocol that this broker speaks, as tables of fields.

Here: numbers and types of the protocol; a command's class knows its number in `COMMAND`.
Next door: the encoding (protobuf.py), the frames that commands travel in (frame.py).
Never here: what a command does (gateways/pulsar).
"""

from typing import ClassVar, Final

from kafscale.wire.pulsar.messages.metadata import KeyValue
from kafscale.wire.pulsar.protobuf import (
    REQUIRED,
    ProtoMessage,
    boolean,
    double,
    many,
    nested,
    number,
    raw,
    signed,
    string,
)

NO_REQUEST: Final = (1 << 64) - 1  # the request id of what the broker sends unasked


class Command(ProtoMessage):
    """Base of all commands."""

    COMMAND: ClassVar[int] = 0


class MessageIdData(ProtoMessage):
    """Where a message is; -1 in both numbers means before all of them."""

    ledger_id: int = signed(1, REQUIRED)
    entry_id: int = signed(2, REQUIRED)
    partition: int | None = signed(3)
    batch_index: int | None = signed(4)
    ack_set: list[int] = many(signed(5))  # bits of messages that are not acknowledged, by 64
    batch_size: int | None = signed(6)


class Schema(ProtoMessage):
    """What the payloads of a topic look like."""

    name: str = string(1, REQUIRED)
    schema_data: bytes = raw(3, REQUIRED)
    type: int = number(4, REQUIRED)
    properties: list[KeyValue] = many(nested(5, KeyValue))


class FeatureFlags(ProtoMessage):
    """What a peer can do beyond its protocol version."""

    supports_auth_refresh: bool | None = boolean(1)
    supports_broker_entry_metadata: bool | None = boolean(2)
    supports_partial_producer: bool | None = boolean(3)
    supports_topic_watchers: bool | None = boolean(4)
    supports_get_partitioned_metadata_without_auto_creation: bool | None = boolean(5)


class IntRange(ProtoMessage):
    """Hashes from `start` to `end`, both included."""

    start: int = signed(1, REQUIRED)
    end: int = signed(2, REQUIRED)


class KeySharedMeta(ProtoMessage):
    """How a consumer takes its share of the keys."""

    key_shared_mode: int = number(1, REQUIRED)
    hash_ranges: list[IntRange] = many(nested(3, IntRange))
    allow_out_of_order_delivery: bool | None = boolean(4)


class Connect(Command):
    """A client says who it is: the first command of a connection."""

    COMMAND = 2
    client_version: str = string(1, REQUIRED)
    auth_data: bytes | None = raw(3)
    protocol_version: int = signed(4, 0)
    auth_method_name: str | None = string(5)
    proxy_to_broker_url: str | None = string(6)
    feature_flags: FeatureFlags | None = nested(10, FeatureFlags)


class Connected(Command):
    """The answer to Connect."""

    COMMAND = 3
    server_version: str = string(1, REQUIRED)
    protocol_version: int | None = signed(2)
    max_message_size: int | None = signed(3)
    feature_flags: FeatureFlags | None = nested(4, FeatureFlags)


class AuthData(ProtoMessage):
    """What a client proves who it is by, or is asked for."""

    auth_method_name: str | None = string(1)
    auth_data: bytes | None = raw(2)


class AuthChallenge(Command):
    """The client is to prove who it is once more."""

    COMMAND = 36
    server_version: str | None = string(1)
    challenge: AuthData | None = nested(2, AuthData)
    protocol_version: int | None = signed(3)


class AuthResponse(Command):
    """The client's proof."""

    COMMAND = 37
    client_version: str | None = string(1)
    response: AuthData | None = nested(2, AuthData)
    protocol_version: int | None = signed(3)


class Subscribe(Command):
    """A consumer joins a subscription."""

    COMMAND = 4
    topic: str = string(1, REQUIRED)
    subscription: str = string(2, REQUIRED)
    sub_type: int = number(3, REQUIRED)
    consumer_id: int = number(4, REQUIRED)
    request_id: int = number(5, REQUIRED)
    consumer_name: str | None = string(6)
    priority_level: int | None = signed(7)
    durable: bool = boolean(8, True)
    start_message_id: MessageIdData | None = nested(9, MessageIdData)
    metadata: list[KeyValue] = many(nested(10, KeyValue))
    read_compacted: bool | None = boolean(11)
    schema: Schema | None = nested(12, Schema)
    initial_position: int = number(13, 0)
    replicate_subscription_state: bool | None = boolean(14)
    force_topic_creation: bool = boolean(15, True)
    start_message_rollback_duration_sec: int | None = number(16)
    key_shared_meta: KeySharedMeta | None = nested(17, KeySharedMeta)
    subscription_properties: list[KeyValue] = many(nested(18, KeyValue))
    consumer_epoch: int | None = number(19)


class Producer(Command):
    """A producer begins."""

    COMMAND = 5
    topic: str = string(1, REQUIRED)
    producer_id: int = number(2, REQUIRED)
    request_id: int = number(3, REQUIRED)
    producer_name: str | None = string(4)
    encrypted: bool | None = boolean(5)
    metadata: list[KeyValue] = many(nested(6, KeyValue))
    schema: Schema | None = nested(7, Schema)
    epoch: int | None = number(8)
    user_provided_producer_name: bool = boolean(9, True)
    producer_access_mode: int = number(10, 0)
    topic_epoch: int | None = number(11)
    txn_enabled: bool | None = boolean(12)
    initial_subscription_name: str | None = string(13)


class Send(Command):
    """A message, or a batch of them; the payload follows in the frame."""

    COMMAND = 6
    producer_id: int = number(1, REQUIRED)
    sequence_id: int = number(2, REQUIRED)
    num_messages: int = signed(3, 1)
    txnid_least_bits: int | None = number(4)
    txnid_most_bits: int | None = number(5)
    highest_sequence_id: int | None = number(6)
    is_chunk: bool | None = boolean(7)
    marker: bool | None = boolean(8)
    message_id: MessageIdData | None = nested(9, MessageIdData)


class SendReceipt(Command):
    """What was sent is stored."""

    COMMAND = 7
    producer_id: int = number(1, REQUIRED)
    sequence_id: int = number(2, REQUIRED)
    message_id: MessageIdData | None = nested(3, MessageIdData)
    highest_sequence_id: int | None = number(4)


class SendError(Command):
    """What was sent is refused."""

    COMMAND = 8
    producer_id: int = number(1, REQUIRED)
    sequence_id: int = number(2, REQUIRED)
    error: int = number(3, REQUIRED)
    message: str = string(4, REQUIRED)


class Delivery(Command):
    """An entry for a consumer; the protocol calls this command MESSAGE."""

    COMMAND = 9
    consumer_id: int = number(1, REQUIRED)
    message_id: MessageIdData = nested(2, MessageIdData, REQUIRED)
    redelivery_count: int | None = number(3)
    ack_set: list[int] = many(signed(4))
    consumer_epoch: int | None = number(5)


class Ack(Command):
    """A consumer acknowledges entries, or messages of them."""

    COMMAND = 10
    consumer_id: int = number(1, REQUIRED)
    ack_type: int = number(2, REQUIRED)
    message_id: list[MessageIdData] = many(nested(3, MessageIdData))
    validation_error: int | None = number(4)
    txnid_least_bits: int | None = number(6)
    txnid_most_bits: int | None = number(7)
    request_id: int | None = number(8)


class Flow(Command):
    """A consumer has room for more messages."""

    COMMAND = 11
    consumer_id: int = number(1, REQUIRED)
    message_permits: int = number(2, REQUIRED)


class Unsubscribe(Command):
    """A consumer ends its subscription."""

    COMMAND = 12
    consumer_id: int = number(1, REQUIRED)
    request_id: int = number(2, REQUIRED)
    force: bool | None = boolean(3)


class Success(Command):
    """It is done."""

    COMMAND = 13
    request_id: int = number(1, REQUIRED)
    schema: Schema | None = nested(2, Schema)


class Error(Command):
    """It is not done."""

    COMMAND = 14
    request_id: int = number(1, REQUIRED)
    error: int = number(2, REQUIRED)
    message: str = string(3, REQUIRED)


class CloseProducer(Command):
    """A producer ends; from the broker: it must find its broker again."""

    COMMAND = 15
    producer_id: int = number(1, REQUIRED)
    request_id: int = number(2, REQUIRED)


class CloseConsumer(Command):
    """A consumer ends; from the broker: it must find its broker again."""

    COMMAND = 16
    consumer_id: int = number(1, REQUIRED)
    request_id: int = number(2, REQUIRED)


class ProducerSuccess(Command):
    """A producer may send, or, not being ready, waits for its turn."""

    COMMAND = 17
    request_id: int = number(1, REQUIRED)
    producer_name: str = string(2, REQUIRED)
    last_sequence_id: int | None = signed(3)
    schema_version: bytes | None = raw(4)
    topic_epoch: int | None = number(5)
    producer_ready: bool | None = boolean(6)


class Ping(Command):
    """Are you there?"""

    COMMAND = 18


class Pong(Command):
    """Yes."""

    COMMAND = 19


class RedeliverUnacknowledged(Command):
    """A consumer gives entries back; none named: all that it has not acknowledged."""

    COMMAND = 20
    consumer_id: int = number(1, REQUIRED)
    message_ids: list[MessageIdData] = many(nested(2, MessageIdData))
    consumer_epoch: int | None = number(3)


class PartitionedMetadata(Command):
    """How many partitions has a topic?"""

    COMMAND = 21
    topic: str = string(1, REQUIRED)
    request_id: int = number(2, REQUIRED)
    metadata_auto_creation_enabled: bool = boolean(6, True)


class PartitionedMetadataResponse(Command):
    """So many; 0 means that the topic is used by its bare name."""

    COMMAND = 22
    partitions: int | None = number(1)
    request_id: int = number(2, REQUIRED)
    response: int | None = number(3)  # 0 success, 1 failed
    error: int | None = number(4)
    message: str | None = string(5)


class Lookup(Command):
    """Which broker serves a topic?"""

    COMMAND = 23
    topic: str = string(1, REQUIRED)
    request_id: int = number(2, REQUIRED)
    authoritative: bool | None = boolean(3)


class LookupResponse(Command):
    """This one."""

    COMMAND = 24
    broker_service_url: str | None = string(1)
    broker_service_url_tls: str | None = string(2)
    response: int | None = number(3)  # 0 redirect, 1 connect, 2 failed
    request_id: int = number(4, REQUIRED)
    authoritative: bool | None = boolean(5)
    error: int | None = number(6)
    message: str | None = string(7)
    proxy_through_service_url: bool | None = boolean(8)


class ConsumerStats(Command):
    """How is a consumer doing?"""

    COMMAND = 25
    request_id: int = number(1, REQUIRED)
    consumer_id: int = number(4, REQUIRED)


class ConsumerStatsResponse(Command):
    """Its figures."""

    COMMAND = 26
    request_id: int = number(1, REQUIRED)
    error_code: int | None = number(2)
    error_message: str | None = string(3)
    message_rate_out: float | None = double(4)
    consumer_name: str | None = string(7)
    available_permits: int | None = number(8)
    unacked_messages: int | None = number(9)
    type: str | None = string(13)
    message_backlog: int | None = number(15)


class Seek(Command):
    """A subscription goes on from another message, or another time."""

    COMMAND = 28
    consumer_id: int = number(1, REQUIRED)
    request_id: int = number(2, REQUIRED)
    message_id: MessageIdData | None = nested(3, MessageIdData)
    message_publish_time: int | None = number(4)


class GetLastMessageId(Command):
    """What is the last message of the topic?"""

    COMMAND = 29
    consumer_id: int = number(1, REQUIRED)
    request_id: int = number(2, REQUIRED)


class GetLastMessageIdResponse(Command):
    """That one, and how far the subscription is."""

    COMMAND = 30
    last_message_id: MessageIdData = nested(1, MessageIdData, REQUIRED)
    request_id: int = number(2, REQUIRED)
    consumer_mark_delete_position: MessageIdData | None = nested(3, MessageIdData)


class ActiveConsumerChange(Command):
    """A consumer of a failover subscription has become the active one, or a standby."""

    COMMAND = 31
    consumer_id: int = number(1, REQUIRED)
    is_active: bool | None = boolean(2)


class GetTopicsOfNamespace(Command):
    """Which topics are there?"""

    COMMAND = 32
    request_id: int = number(1, REQUIRED)
    namespace: str = string(2, REQUIRED)
    mode: int | None = number(3)  # 0 persistent, 1 non-persistent, 2 all
    topics_pattern: str | None = string(4)
    topics_hash: str | None = string(5)


class GetTopicsOfNamespaceResponse(Command):
    """These."""

    COMMAND = 33
    request_id: int = number(1, REQUIRED)
    topics: list[str] = many(string(2))
    filtered: bool | None = boolean(3)
    topics_hash: str | None = string(4)
    changed: bool | None = boolean(5)


class GetSchema(Command):
    """What do payloads of a topic look like?"""

    COMMAND = 34
    request_id: int = number(1, REQUIRED)
    topic: str = string(2, REQUIRED)
    schema_version: bytes | None = raw(3)


class GetSchemaResponse(Command):
    """Like this."""

    COMMAND = 35
    request_id: int = number(1, REQUIRED)
    error_code: int | None = number(2)
    error_message: str | None = string(3)
    schema: Schema | None = nested(4, Schema)
    schema_version: bytes | None = raw(5)


class AckResponse(Command):
    """What was acknowledged is noted."""

    COMMAND = 38
    consumer_id: int = number(1, REQUIRED)
    txnid_least_bits: int | None = number(2)
    txnid_most_bits: int | None = number(3)
    error: int | None = number(4)
    message: str | None = string(5)
    request_id: int | None = number(6)


class GetOrCreateSchema(Command):
    """Payloads of a topic look like this from now on."""

    COMMAND = 39
    request_id: int = number(1, REQUIRED)
    topic: str = string(2, REQUIRED)
    schema: Schema = nested(3, Schema, REQUIRED)


class GetOrCreateSchemaResponse(Command):
    """The version that this schema has."""

    COMMAND = 40
    request_id: int = number(1, REQUIRED)
    error_code: int | None = number(2)
    error_message: str | None = string(3)
    schema_version: bytes | None = raw(4)


def _of(kind: type[Command]) -> dict[int, type[Command]]:
    return {one.COMMAND: one for one in kind.__subclasses__()}


COMMANDS: Final[dict[int, type[Command]]] = _of(Command)
