from kafscale.gateways.kafka.calls.errors import CODE_OF, code_of
from kafscale.model import errors
from kafscale.wire.kafka.errors import ErrorCode


def every_error() -> set[type[errors.KafscaleError]]:
    found = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.KafscaleError)
    }
    return found - {errors.KafscaleError}


def test_every_error_class_has_a_code_of_kafka() -> None:
    assert set(CODE_OF) == every_error()


def test_an_error_added_inside_a_room_counts_as_its_parent() -> None:
    class NewKindOfBatchTrouble(errors.CorruptBatch):
        pass

    class Unheard(errors.KafscaleError):
        pass

    assert code_of(NewKindOfBatchTrouble()) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(Unheard()) is ErrorCode.KAFKA_STORAGE_ERROR


def test_nothing_is_ever_an_unknown_server_error_or_a_success() -> None:
    assert not {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE} & set(CODE_OF.values())


def test_trouble_with_the_store_is_something_producers_try_again() -> None:
    retried = {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
    for kind in (
        errors.StoreUnavailable,
        errors.StoreRefused,
        errors.NotWritten,
        errors.OutcomeUnknown,
        errors.NotTheOwner,
        errors.LogStopped,
        errors.MetadataUnavailable,
    ):
        assert CODE_OF[kind] in retried
