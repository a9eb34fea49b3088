"""The errors of the engine as Kafka's codes: one table, and a test that it is complete.

Clients retry or give up by the code, so each line is a decision about their behaviour.
"""

from typing import Final

from kafscale.model import errors
from kafscale.wire.kafka.errors import ErrorCode

CODE_OF: Final[dict[type[errors.KafscaleError], ErrorCode]] = {
    errors.StoreUnavailable: ErrorCode.REQUEST_TIMED_OUT,
    errors.StoreRefused: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.StoreError: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.ObjectExists: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.ObjectMissing: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.CorruptObject: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.BadBatch: ErrorCode.INVALID_RECORD,
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.InvalidRecord: ErrorCode.INVALID_RECORD,
    errors.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    errors.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.RecordListTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.NotConvertible: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    errors.ConversionOff: ErrorCode.UNSUPPORTED_VERSION,
    errors.BadSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.DuplicateSequence: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    errors.StaleProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.UnknownProducer: ErrorCode.UNKNOWN_PRODUCER_ID,
    errors.NotTheOwner: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.LogEnded: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.NotWritten: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.UnpacksTooMuch: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.OutcomeUnknown: ErrorCode.REQUEST_TIMED_OUT,
    errors.LogStopped: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    errors.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.TopicError: ErrorCode.INVALID_REQUEST,
    errors.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.UnknownNamespace: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.NamespaceExists: ErrorCode.INVALID_REQUEST,
    errors.InvalidPartitionCount: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidReplication: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    errors.InvalidTopicConfig: ErrorCode.INVALID_CONFIG,
    errors.MappingError: ErrorCode.INVALID_REQUEST,
    errors.InvalidMapping: ErrorCode.INVALID_CONFIG,
    errors.NegativePartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.VirtualPartitionOutOfRange: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.PhysicalPartitionOutOfRange: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.NegativeOffset: ErrorCode.OFFSET_OUT_OF_RANGE,
    # Final for every client: no retry makes the range longer.
    errors.OffsetRangeExhausted: ErrorCode.POLICY_VIOLATION,
    errors.TopicMoving: ErrorCode.REASSIGNMENT_IN_PROGRESS,
    errors.GroupError: ErrorCode.INVALID_REQUEST,
    errors.InvalidGroupId: ErrorCode.INVALID_GROUP_ID,
    errors.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.IllegalGeneration: ErrorCode.ILLEGAL_GENERATION,
    errors.InconsistentProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    errors.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.MemberIdRequired: ErrorCode.MEMBER_ID_REQUIRED,
    errors.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.GroupMemoryFull: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.FencedInstance: ErrorCode.FENCED_INSTANCE_ID,
    errors.FencedMemberEpoch: ErrorCode.FENCED_MEMBER_EPOCH,
    errors.UnreleasedInstance: ErrorCode.UNRELEASED_INSTANCE_ID,
    errors.UnsupportedAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    errors.StaleMemberEpoch: ErrorCode.STALE_MEMBER_EPOCH,
    errors.InvalidRegularExpression: ErrorCode.INVALID_REGULAR_EXPRESSION,
    errors.InvalidGroupConfig: ErrorCode.INVALID_CONFIG,
    errors.InvalidRecordState: ErrorCode.INVALID_RECORD_STATE,
    errors.ShareSessionNotFound: ErrorCode.SHARE_SESSION_NOT_FOUND,
    errors.InvalidShareSessionEpoch: ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    errors.ShareSessionLimitReached: ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    errors.GroupNotEmpty: ErrorCode.NON_EMPTY_GROUP,
    errors.GroupNotFound: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.GroupIsGoing: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.GroupIsRebalancing: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    errors.GroupSubscribed: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.NotTheCoordinator: ErrorCode.NOT_COORDINATOR,
    errors.OffsetMetadataTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    errors.AuthenticationFailed: ErrorCode.SASL_AUTHENTICATION_FAILED,
    errors.TokenError: ErrorCode.INVALID_REQUEST,
    errors.TransactionError: ErrorCode.INVALID_TXN_STATE,
    errors.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    errors.TransactionPending: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.ProducerFenced: ErrorCode.PRODUCER_FENCED,
    errors.InvalidProducerMapping: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    errors.InvalidTransactionTimeout: ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    errors.TransactionAbortable: ErrorCode.TRANSACTION_ABORTABLE,
    errors.TransactionNotFound: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    errors.UnstableOffset: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.TokensDisabled: ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    errors.TokenNotFound: ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    errors.TokenOwnerMismatch: ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
    errors.TokenExpired: ErrorCode.DELEGATION_TOKEN_EXPIRED,
    errors.UserNotFound: ErrorCode.RESOURCE_NOT_FOUND,
    errors.UnacceptableCredential: ErrorCode.UNACCEPTABLE_CREDENTIAL,
    errors.SubscriptionError: ErrorCode.INVALID_REQUEST,
    errors.ConsumerBusy: ErrorCode.NON_EMPTY_GROUP,
    errors.KeyRangeTaken: ErrorCode.INVALID_REQUEST,
    errors.SubscriptionExists: ErrorCode.INVALID_REQUEST,
    errors.SubscriptionNotFound: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.InvalidAcl: ErrorCode.INVALID_REQUEST,
    errors.SecurityDisabled: ErrorCode.SECURITY_DISABLED,
    errors.UnsupportedEntity: ErrorCode.UNSUPPORTED_VERSION,
    errors.ThrottlingQuotaExceeded: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    errors.MetadataConflict: ErrorCode.REQUEST_TIMED_OUT,
    errors.MetadataUnavailable: ErrorCode.REQUEST_TIMED_OUT,
}

_MOST_WORDS: Final = 1000  # characters; names that clients choose are quoted and can be very long


def words_of(problem: errors.KafscaleError) -> str:
    """The text of an error, short enough for every version of every answer."""
    text = str(problem)
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}..."


def code_of(problem: errors.KafscaleError) -> ErrorCode:
    """The code that clients get; an error without a line of its own counts as its parent."""
    for kind in type(problem).__mro__:
        code = CODE_OF.get(kind)
        if code is not None:
            return code
    return ErrorCode.KAFKA_STORAGE_ERROR


def coordinator_code_of(
    problem: errors.KafscaleError,
    unavailable: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE,
) -> ErrorCode:
    """The code in answers about groups: without metadata a client should try again later."""
    if isinstance(problem, errors.MetadataUnavailable | errors.MetadataConflict):
        return unavailable
    return code_of(problem)
