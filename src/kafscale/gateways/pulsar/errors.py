"""The errors of the engine as Pulsar's codes: one table.

Clients retry or give up by the code. Many codes make the C++ client, and so Python's, try again in
silence until its time is over. What is final therefore gets a code that fails at once.
"""

from typing import Final

from kafscale.model import errors
from kafscale.wire.pulsar.errors import ServerError

CODE_OF: Final[dict[type[errors.KafscaleError], ServerError]] = {
    errors.KafscaleError: ServerError.PERSISTENCE_ERROR,
    errors.UnknownTopic: ServerError.TOPIC_NOT_FOUND,
    errors.UnknownTopicId: ServerError.TOPIC_NOT_FOUND,
    # The protocol has InvalidTopicName (17). Clients try again after it, so they get 22.
    errors.TopicError: ServerError.NOT_ALLOWED,
    errors.TopicExists: ServerError.SERVICE_NOT_READY,
    errors.NotTheOwner: ServerError.SERVICE_NOT_READY,
    errors.TopicMoving: ServerError.SERVICE_NOT_READY,
    errors.MetadataUnavailable: ServerError.SERVICE_NOT_READY,
    errors.MetadataConflict: ServerError.SERVICE_NOT_READY,
    errors.BadBatch: ServerError.NOT_ALLOWED,
    errors.CorruptBatch: ServerError.CHECKSUM_ERROR,
    errors.InvalidRequest: ServerError.NOT_ALLOWED,
    errors.MappingError: ServerError.NOT_ALLOWED,
    errors.OffsetRangeExhausted: ServerError.TOPIC_TERMINATED,
    errors.SubscriptionError: ServerError.NOT_ALLOWED,
    errors.ConsumerBusy: ServerError.CONSUMER_BUSY,
    errors.KeyRangeTaken: ServerError.CONSUMER_ASSIGN_ERROR,
    errors.SubscriptionNotFound: ServerError.SUBSCRIPTION_NOT_FOUND,
}

# A message that is refused for one of these is refused however often it is sent.
FINAL: Final = (errors.BadBatch, errors.InvalidRequest, errors.MappingError)


def code_of(problem: errors.KafscaleError) -> ServerError:
    """The code that clients get; an error without a line of its own counts as its parent."""
    return next(CODE_OF[kind] for kind in type(problem).__mro__ if kind in CODE_OF)
