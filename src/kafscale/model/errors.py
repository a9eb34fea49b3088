"""What can go wrong, in our words.

Here: one class per thing a caller can act on. Doors translate them to their protocol's
codes in one table each (gateways/kafka/errors.py), and a test counts that none is missing.

    KafscaleError
      StoreError            the object store said no
        ObjectExists  ObjectMissing  StoreUnavailable  StoreRefused
      CorruptObject         stored bytes are not what they claim to be
      BadBatch              a producer sent something we will not store
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
        GroupFull  FencedInstance  GroupNotEmpty  GroupNotFound  GroupIsGoing
        GroupSubscribed  NotTheCoordinator
      InvalidRequest
      MetadataConflict  MetadataUnavailable
"""


class KafscaleError(Exception):
    """Root of everything we raise on purpose."""


class StoreError(KafscaleError):
    """The object store did not do what was asked."""


class ObjectExists(StoreError):
    """put_new found the key taken: by another writer, or by our own earlier attempt."""


class ObjectMissing(StoreError):
    """The key is not there."""


class StoreUnavailable(StoreError):
    """Timeout, refused connection, server error: whether a write happened is unknown."""


class StoreRefused(StoreError):
    """The store said no: credentials, missing bucket, full disk. Nothing was written."""


class CorruptObject(KafscaleError):
    """A stored object contradicts its own checksum, length or neighbours."""


class BadBatch(KafscaleError):
    """A record batch that will not be stored."""


class CorruptBatch(BadBatch):
    """The checksum, the magic byte or a compressed stream is broken: sending again may help."""


class InvalidRecord(BadBatch):
    """Well-formed bytes with contents that contradict each other: sending again will not help.

    `records` are the numbers of those to blame within their batch, where that can be said.
    """

    def __init__(self, message: str, records: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.records = records


class UnsupportedCompression(BadBatch):
    """A codec nobody knows, or one that this request version must not carry."""


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
    """An idempotent producer's numbering does not fit."""


class OutOfOrderSequence(BadSequence):
    """A batch before this one is missing."""


class DuplicateSequence(BadSequence):
    """Seen before, but too long ago to know its offset."""


class StaleProducerEpoch(BadSequence):
    """A newer instance of the same producer has written."""


class UnknownProducer(BadSequence):
    """The log has no memory of this producer, and the batch is not its first."""

    log_start = -1  # told when it is sure to be forgotten, not merely overtaken by what it sent


class TopicMoving(KafscaleError):
    """The topic is on its way to another layout; what was asked for has to wait."""


class NotTheOwner(KafscaleError):
    """Another broker writes this log; the client must look up the owner again."""


class LogEnded(NotTheOwner):
    """The log's topic is gone for ever; a topic of that name, if there is one, lies elsewhere."""


class OffsetOutOfRange(KafscaleError):
    """Below the log start or beyond the high watermark."""


class NotWritten(KafscaleError):
    """The store is unwell and the batch was surely not written."""


class OutcomeUnknown(KafscaleError):
    """The store did not answer in time; the batch may or may not appear."""


class LogStopped(KafscaleError):
    """The log found its own objects in contradiction and will not go on by guessing."""


class FencedLeaderEpoch(KafscaleError):
    """The client knows an older leader epoch than ours."""


class UnknownLeaderEpoch(KafscaleError):
    """The client knows a newer leader epoch than ours."""


class TopicError(KafscaleError):
    """Something about a topic's name, existence or settings."""


class UnknownTopic(TopicError):
    """No such topic, or no such partition in it."""


class UnknownTopicId(TopicError):
    """No topic has this id."""


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
    """The group is in another generation than its member believes."""


class InconsistentProtocol(GroupError):
    """A way of assigning partitions that the group's members do not share."""


class InvalidSessionTimeout(GroupError):
    """Shorter or longer than a member's session may be."""


class RebalanceInProgress(GroupError):
    """Partitions are being given out anew: the member must join again."""


class MemberIdRequired(GroupError):
    """A new member was given an id and must join with it."""


class GroupFull(GroupError):
    """The group has as many members as it may have."""


class FencedInstance(GroupError):
    """Another process has taken over this static member."""


class GroupNotEmpty(GroupError):
    """The group has members and cannot be deleted."""


class GroupNotFound(GroupError):
    """There is no such group."""


class GroupIsGoing(GroupError):
    """The group is being deleted: come back when it is gone."""


class GroupSubscribed(GroupError):
    """The group's members read this topic: its offsets cannot be deleted."""


class NotTheCoordinator(GroupError):
    """Another broker has taken the group: ask who it is."""


class OffsetMetadataTooLarge(GroupError):
    """A note beside a committed offset that is longer than allowed."""


class InvalidRequest(KafscaleError):
    """The request contradicts itself or asks for more than one request may."""


class MetadataConflict(KafscaleError):
    """A compared value had changed: read again and decide again."""


class MetadataUnavailable(KafscaleError):
    """The metadata store did not answer."""
