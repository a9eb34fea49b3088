"""Every error that Kafscale raises on purpose.

Here: one class per reaction that a caller may need. Each door translates the classes to its
protocol's codes in one table (gateways/kafka/calls/errors.py); a test checks that none is missing.

    KafscaleError
      StoreError            the object store refused or failed
        ObjectExists  ObjectMissing  StoreUnavailable  StoreRefused
      CorruptObject         stored bytes are not what they claim to be
      BadBatch              a producer sent a batch that the broker does not store
        CorruptBatch  InvalidRecord  UnsupportedCompression
        BatchTooLarge  RecordListTooLarge  InvalidTimestamp
      BadSequence           idempotence
        OutOfOrderSequence  DuplicateSequence  StaleProducerEpoch  UnknownProducer
      NotConvertible  ConversionOff
      TopicMoving  NotTheOwner (LogEnded)  OffsetOutOfRange  NotWritten  OutcomeUnknown  LogStopped
      FencedLeaderEpoch  UnknownLeaderEpoch
      TopicError
        UnknownTopic  UnknownTopicId  TopicExists  InvalidTopicName
        InvalidPartitionCount  InvalidReplication  InvalidReplicaAssignment
        InvalidTopicConfig
      MappingError          virtual partitions
        InvalidMapping  NegativePartition  VirtualPartitionOutOfRange
        PhysicalPartitionOutOfRange  NegativeOffset  OffsetRangeExhausted
      GroupError            consumer groups
        InvalidGroupId  UnknownMember  OffsetMetadataTooLarge  IllegalGeneration
        InconsistentProtocol  InvalidSessionTimeout  RebalanceInProgress  MemberIdRequired
        GroupFull  GroupMemoryFull  FencedInstance  GroupNotEmpty  GroupNotFound  GroupIsGoing
        GroupIsRebalancing  GroupSubscribed  NotTheCoordinator
      TransactionError      transactions
        InvalidTransactionState  TransactionPending  ProducerFenced  InvalidProducerMapping
        InvalidTransactionTimeout  TransactionAbortable  TransactionNotFound  UnstableOffset
      AuthenticationFailed  a client has not proved who it is
      TokenError            delegation tokens
        TokensDisabled  TokenNotFound  TokenOwnerMismatch  TokenExpired
      UserNotFound  UnacceptableCredential
      SubscriptionError     subscriptions
        ConsumerBusy  KeyRangeTaken  SubscriptionExists  SubscriptionNotFound
      InvalidRequest  UnsupportedEntity  ThrottlingQuotaExceeded
      MetadataConflict  MetadataUnavailable
"""


class KafscaleError(Exception):
    """Root of all errors that Kafscale raises on purpose."""


class StoreError(KafscaleError):
    """The object store did not do what was asked."""


class ObjectExists(StoreError):
    """put_new found the key taken, by another writer or by an earlier attempt of this one."""


class ObjectMissing(StoreError):
    """The store has no object under the key."""


class StoreUnavailable(StoreError):
    """Timeout, refused connection, server error: whether a write happened is unknown."""


class StoreRefused(StoreError):
    """The store refused: credentials, missing bucket, full disk. Nothing was written."""


class CorruptObject(KafscaleError):
    """A stored object contradicts its own checksum, length or neighbours."""


class BadBatch(KafscaleError):
    """A record batch that will not be stored."""


class CorruptBatch(BadBatch):
    """The checksum, the magic byte or a compressed stream is broken: sending again may help."""


class InvalidRecord(BadBatch):
    """Well-formed bytes with contents that contradict each other: sending again will not help.

    `records` are the indexes of the invalid records within their batch, if they are known.
    """

    def __init__(self, message: str, records: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.records = records


class UnsupportedCompression(BadBatch):
    """An unknown codec, or one that this request version must not carry."""


class BatchTooLarge(BadBatch):
    """Larger than max.message.bytes."""


class RecordListTooLarge(BadBatch):
    """Larger than a whole segment may be."""


class InvalidTimestamp(BadBatch):
    """A record's time lies outside what the topic allows."""


class NotConvertible(KafscaleError):
    """Stored records cannot be put into the older message format that a consumer reads."""


class ConversionOff(KafscaleError):
    """The topic hands out its records in the newest message format only."""


class BadSequence(KafscaleError):
    """The sequence numbers of an idempotent producer do not fit."""


class OutOfOrderSequence(BadSequence):
    """A batch before this one is missing."""


class DuplicateSequence(BadSequence):
    """The log has this batch, but no longer knows its offset."""


class StaleProducerEpoch(BadSequence):
    """A newer instance of the same producer has written."""


class UnknownProducer(BadSequence):
    """The log has no memory of this producer, and the batch is not its first."""

    log_start = -1  # set when the producer's records are deleted, so that the client may go on


class TopicMoving(KafscaleError):
    """The topic is moving to another layout; the request has to wait."""


class NotTheOwner(KafscaleError):
    """Another broker writes this log; the client must look up the owner again."""


class LogEnded(NotTheOwner):
    """The log's topic was deleted. A new topic of the same name has other logs."""


class OffsetOutOfRange(KafscaleError):
    """Below the log start or beyond the high watermark."""


class NotWritten(KafscaleError):
    """The store is sick; the batch was certainly not written."""


class UnpacksTooMuch(NotWritten):
    """The batches of one request unpack to too much: sending this one again, in another, helps."""


class OutcomeUnknown(KafscaleError):
    """The store did not answer in time; the batch may or may not appear."""


class LogStopped(KafscaleError):
    """The log's objects contradict each other, and the log refuses to guess."""


class FencedLeaderEpoch(KafscaleError):
    """The client's leader epoch is older than the broker's."""


class UnknownLeaderEpoch(KafscaleError):
    """The client's leader epoch is newer than the broker's."""


class TopicError(KafscaleError):
    """Something about a topic's name, existence or settings."""


class UnknownTopic(TopicError):
    """No such topic, or no such partition in it."""


class UnknownTopicId(TopicError):
    """No topic has this id."""


class UnknownNamespace(TopicError):
    """There is no such tenant or namespace."""


class NamespaceExists(TopicError):
    """There is such a tenant or namespace already."""


class TopicExists(TopicError):
    """The name is taken."""


class InvalidTopicName(TopicError):
    """Not a name a topic may have."""


class InvalidPartitionCount(TopicError):
    """None, negative, or more than allowed."""


class InvalidReplication(TopicError):
    """A replication factor that makes no sense."""


class InvalidReplicaAssignment(TopicError):
    """Partitions assigned to brokers in a way that does not add up."""


class InvalidTopicConfig(TopicError):
    """An unknown topic setting, or a value it cannot have."""


class MappingError(KafscaleError):
    """Something about virtual partitions does not add up."""


class InvalidMapping(MappingError):
    """Numbers of partitions or an offset range that cannot go together."""


class NegativePartition(MappingError):
    """A partition below zero."""


class VirtualPartitionOutOfRange(MappingError):
    """There are fewer virtual partitions."""


class PhysicalPartitionOutOfRange(MappingError):
    """There are fewer physical partitions."""


class NegativeOffset(MappingError):
    """An offset below zero."""


class OffsetRangeExhausted(MappingError):
    """The partition's offsets are used up; what comes next would be another partition's."""


class GroupError(KafscaleError):
    """Something about a consumer group or what it commits."""


class InvalidGroupId(GroupError):
    """Not a name a group may have."""


class UnknownMember(GroupError):
    """The group has no such member."""


class IllegalGeneration(GroupError):
    """The member names another generation than the group is in."""


class InconsistentProtocol(GroupError):
    """The group's members share no assignment protocol with this one."""


class InvalidSessionTimeout(GroupError):
    """Shorter or longer than a member's session may be."""


class RebalanceInProgress(GroupError):
    """The group rebalances: the member must join again."""


class MemberIdRequired(GroupError):
    """A new member was given an id and must join with it."""


class GroupFull(GroupError):
    """The group has as many members as it may have."""


class GroupMemoryFull(GroupError):
    """The members of all groups hold as much memory as they may; later there may be room."""


class FencedInstance(GroupError):
    """Another process has taken over this static member."""


class FencedMemberEpoch(GroupError):
    """The member's epoch is not the group's for it: the member must give up all and join again."""


class UnreleasedInstance(GroupError):
    """A static member that has not gone away has this instance id."""


class UnsupportedAssignor(GroupError):
    """The coordinator has no assignor of this name."""


class StaleMemberEpoch(GroupError):
    """The member's epoch is out of date: the member tries again with its present one."""


class InvalidGroupConfig(GroupError):
    """A group cannot have this setting, or not this value of it."""


class InvalidRecordState(GroupError):
    """A consumer decides about a message that it does not have."""


class ShareSessionNotFound(GroupError):
    """The broker has no share session of this member."""


class InvalidShareSessionEpoch(GroupError):
    """A request of a share session was lost, or came twice."""


class ShareSessionLimitReached(GroupError):
    """The broker has as many share sessions as it may have."""


class InvalidRegularExpression(GroupError):
    """The pattern of a subscription cannot be read."""


class GroupNotEmpty(GroupError):
    """The group has members and cannot be deleted."""


class GroupNotFound(GroupError):
    """There is no such group."""


class GroupIsGoing(GroupError):
    """The group is being deleted: the client may try again afterwards."""


class GroupIsRebalancing(GroupError):
    """The group's members are joining: the client may try again afterwards."""


class GroupSubscribed(GroupError):
    """The group's members read this topic: its offsets cannot be deleted."""


class NotTheCoordinator(GroupError):
    """Another broker coordinates the group: the client must look it up."""


class OffsetMetadataTooLarge(GroupError):
    """The metadata of a committed offset is longer than allowed."""


class TransactionError(KafscaleError):
    """Something about a transaction or the producer that has it."""


class InvalidTransactionState(TransactionError):
    """The transaction is in no state in which this could be done."""


class TransactionPending(TransactionError):
    """The producer's last transaction is ending: the client must try again."""


class ProducerFenced(TransactionError):
    """A newer instance of the producer has its transactional id."""


class InvalidProducerMapping(TransactionError):
    """The transactional id is not this producer's, or is not known."""


class InvalidTransactionTimeout(TransactionError):
    """The timeout is not positive, or longer than the broker allows."""


class TransactionAbortable(TransactionError):
    """The client must abort the transaction, and can go on with the next one."""


class TransactionNotFound(TransactionError):
    """There is no such transactional id."""


class UnstableOffset(TransactionError):
    """A transaction that has not ended yet would change this committed offset."""


class AuthenticationFailed(KafscaleError):
    """A client has not proved who it is. The client is told the text: it holds no secret."""


class TokenError(KafscaleError):
    """A delegation token cannot be made, changed or used."""


class TokensDisabled(TokenError):
    """The broker has no secret to make delegation tokens with."""


class TokenNotFound(TokenError):
    """There is no such delegation token."""


class TokenOwnerMismatch(TokenError):
    """The client is neither owner nor renewer of the delegation token."""


class TokenExpired(TokenError):
    """The delegation token is worth nothing any more."""


class UserNotFound(KafscaleError):
    """The user has no credential of this kind."""


class UnacceptableCredential(KafscaleError):
    """A credential is too weak, or has no form that can be stored."""


class SubscriptionError(KafscaleError):
    """A consumer of a subscription asked for something it cannot have now."""


class ConsumerBusy(SubscriptionError):
    """The subscription has consumers that exclude this one."""


class KeyRangeTaken(SubscriptionError):
    """The hashes that a consumer wants for itself are another's, or are no ranges."""


class SubscriptionExists(SubscriptionError):
    """The partition has a subscription of this name."""


class SubscriptionNotFound(SubscriptionError):
    """The partition has no subscription of this name."""


class InvalidRequest(KafscaleError):
    """The request contradicts itself or asks for more than one request may."""


class InvalidAcl(InvalidRequest):
    """An access control list that cannot be: an empty name, a principal without a type."""


class SecurityDisabled(KafscaleError):
    """The broker has no authorizer, so there are no access control lists."""


class UnsupportedEntity(KafscaleError):
    """A question about quotas of a kind of entity that there is none of."""


class ThrottlingQuotaExceeded(KafscaleError):
    """The client makes more changes than its quota allows, and must wait before it tries again."""


class MetadataConflict(KafscaleError):
    """A compared value had changed: read again and decide again."""


class MetadataUnavailable(KafscaleError):
    """The metadata store did not answer."""
