from kafscale.wire.kafka.errors import RETRIABLE, ErrorCode


def test_codes_are_dense_from_minus_one_on() -> None:
    assert sorted(ErrorCode) == list(range(-1, len(ErrorCode) - 1))
    assert len(ErrorCode) > 121


def test_a_code_tells_whether_to_try_again() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert ErrorCode.REQUEST_TIMED_OUT in RETRIABLE
    assert not ErrorCode.INVALID_RECORD.retriable
    assert not ErrorCode.NONE.retriable
