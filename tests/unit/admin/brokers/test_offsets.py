from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from kafscale.admin.brokers import offsets
from kafscale.admin.errors import AdminError

FIRST, SECOND = ("t", 0), ("t", 1)
WANTED = {FIRST: "latest", SECOND: "latest"}


class Answer(NamedTuple):
    offset: int


class Admin:
    """Gives one answer after the other; the last one again and again."""

    def __init__(self, *answers: dict[tuple[str, int], int]) -> None:
        self.answers = list(answers)
        self.asked: list[set[tuple[str, int]]] = []
        self.looks = 0

    def list_offsets(self, wanted: dict[Any, Any], request_timeout: float) -> dict[Any, Any]:
        assert 0 < request_timeout < offsets.PATIENCE_S
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.asked.append({(place.topic, place.partition) for place in wanted})
        futures = {}
        for place in wanted:
            futures[place] = Future[Any]()
            number = said[place.topic, place.partition]
            if number >= 0 or number == OFFSET_INVALID:
                futures[place].set_result(Answer(number))
            else:
                futures[place].set_exception(KafkaException(KafkaError(-number)))
        return futures

    def list_topics(self, timeout: float) -> None:
        self.looks += 1
        if self.looks == 1:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_PAUSE_S", 0.0)


def ask(admin: Admin) -> offsets.OffsetAnswers:
    return offsets.list_offsets(admin, WANTED)  # type: ignore[arg-type]


def test_what_is_answered_is_not_asked_again() -> None:
    moved, away = -KafkaError.NOT_LEADER_FOR_PARTITION, -KafkaError.LEADER_NOT_AVAILABLE
    admin = Admin(
        {FIRST: 5, SECOND: OFFSET_INVALID},
        {SECOND: moved},
        {SECOND: away},
        {SECOND: -KafkaError.FENCED_LEADER_EPOCH},
        {SECOND: 7},
    )
    assert ask(admin) == {FIRST: 5, SECOND: 7}
    assert admin.asked == [{FIRST, SECOND}, {SECOND}, {SECOND}, {SECOND}, {SECOND}]
    assert admin.looks == 4


def test_a_refusal_that_will_not_pass_is_given_back() -> None:
    found = ask(Admin({FIRST: 5, SECOND: -KafkaError.UNKNOWN_TOPIC_OR_PART}))
    refused = found.pop(SECOND)
    assert found == {FIRST: 5}
    assert isinstance(refused, KafkaException)
    assert refused.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (OFFSET_INVALID, "its broker does not answer"),
        (-KafkaError.LEADER_NOT_AVAILABLE, "Leader not available"),
    ],
)
def test_patience_ends_with_the_reason(
    last: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hurried:
        def __init__(self) -> None:
            self.now_s = 0.0

        def elapsed_s(self) -> float:
            self.now_s += offsets.PATIENCE_S / 3
            return self.now_s

    monkeypatch.setattr(offsets, "SystemClock", Hurried)
    with pytest.raises(AdminError, match=f"^t/1: {why}, and has not for 60 s"):
        ask(Admin({FIRST: 5, SECOND: last}))
