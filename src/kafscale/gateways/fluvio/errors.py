"""The errors of the engine as Fluvio's codes: one table.

A client shows its own words for most codes. Where those would say less than ours, the code is
Other, which carries our words.
"""

from typing import Final

from kafscale.model import errors
from kafscale.wire.fluvio.errors import FluvioCode, FluvioError

CODE_OF: Final[dict[type[errors.KafscaleError], FluvioCode]] = {
    errors.KafscaleError: FluvioCode.OTHER,
    errors.StoreError: FluvioCode.STORAGE_ERROR,
    errors.CorruptObject: FluvioCode.STORAGE_ERROR,
    errors.LogStopped: FluvioCode.STORAGE_ERROR,
    errors.BatchTooLarge: FluvioCode.MESSAGE_TOO_LARGE,
    errors.RecordListTooLarge: FluvioCode.MESSAGE_TOO_LARGE,
    errors.UnsupportedCompression: FluvioCode.COMPRESSION_ERROR,
    errors.NotTheOwner: FluvioCode.NOT_LEADER_FOR_PARTITION,
    errors.LogEnded: FluvioCode.TOPIC_DELETED,
    errors.OffsetOutOfRange: FluvioCode.OFFSET_OUT_OF_RANGE,
    errors.OutcomeUnknown: FluvioCode.REQUEST_TIMED_OUT,
    errors.UnknownTopic: FluvioCode.TOPIC_NOT_FOUND,
    errors.TopicExists: FluvioCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopicName: FluvioCode.TOPIC_INVALID_NAME,
    errors.InvalidPartitionCount: FluvioCode.TOPIC_INVALID_CONFIGURATION,
    errors.InvalidReplicaAssignment: FluvioCode.TOPIC_INVALID_CONFIGURATION,
    errors.InvalidTopicConfig: FluvioCode.TOPIC_INVALID_CONFIGURATION,
}

DENIED: Final = FluvioError(FluvioCode.PERMISSION_DENIED)
_MOST_WORDS: Final = 1000  # characters; names that clients choose are quoted and can be very long
_OF_PRODUCE: Final = 0


class RefusedModule(errors.InvalidRequest):
    """A SmartModule is not run, or not any longer; `error` is what its client is told."""

    def __init__(self, error: FluvioError) -> None:
        """The text is that of the error, for the log."""
        super().__init__(f"SmartModule: {FluvioCode(error.code).name} {error.details}")
        self.error = error

    @staticmethod
    def other(words: str) -> "RefusedModule":
        """An error that the client shows in these words."""
        return RefusedModule(FluvioError.other(words))

    @staticmethod
    def invalid(words: str) -> "RefusedModule":
        """The module cannot be run; `words` say why."""
        return RefusedModule(
            FluvioError(FluvioCode.SMART_MODULE_INVALID, (words[:_MOST_WORDS], None))
        )


def words_of(problem: errors.KafscaleError) -> str:
    """The text of an error, short enough for every answer."""
    return str(problem)[:_MOST_WORDS]


def error_of(problem: errors.KafscaleError, waited_ms: int = 0) -> FluvioError:
    """What clients get; an error without a line of its own counts as its parent."""
    if isinstance(problem, RefusedModule):
        return problem.error
    code = next(CODE_OF[kind] for kind in type(problem).__mro__ if kind in CODE_OF)
    if code is FluvioCode.OTHER:
        return FluvioError.other(words_of(problem))
    if code is FluvioCode.REQUEST_TIMED_OUT:
        return FluvioError(code, (waited_ms, _OF_PRODUCE))
    return FluvioError(code)
