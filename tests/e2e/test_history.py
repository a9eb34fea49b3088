"""The judge of the kill test, judged: each planted fault must be named."""

from collections.abc import Callable

import pytest

from tests.support.history import History, Mark, problems

Records = dict[int, list[tuple[int, bytes]]]


def story(exactly_once: bool = True) -> tuple[History, Records]:
    """Two partitions, ten records each, all acknowledged and there."""
    history = History("p", exactly_once)
    log: Records = {0: [], 1: []}
    for partition, records in log.items():
        for number in range(10):
            mark = Mark("p", partition, number)
            history.sent.add(mark)
            history.acknowledged[mark] = number
            records.append((number, mark.to_value()))
    return history, log


def renumber(values: list[bytes]) -> list[tuple[int, bytes]]:
    return list(enumerate(values))


def lose_the_last(history: History, log: Records) -> None:
    log[0].pop()


def lose_one_in_the_middle(history: History, log: Records) -> None:
    values = [value for _, value in log[1]]
    del values[4]
    log[1] = renumber(values)


def repeat_one(history: History, log: Records) -> None:
    log[0].append((10, log[0][3][1]))


def swap_two(history: History, log: Records) -> None:
    values = [value for _, value in log[0]]
    values[4], values[5] = values[5], values[4]
    log[0] = renumber(values)


def swap_two_unacknowledged(history: History, log: Records) -> None:
    swap_two(history, log)
    for number in (4, 5):
        del history.acknowledged[Mark("p", 0, number)]


def leave_a_gap(history: History, log: Records) -> None:
    log[0] = [(offset + (offset > 6), value) for offset, value in log[0]]


def begin_at_one(history: History, log: Records) -> None:
    log[1] = [(offset + 1, value) for offset, value in log[1]]


def acknowledge_wrongly(history: History, log: Records) -> None:
    history.acknowledged[Mark("p", 1, 2)] = 3


def spoil_a_value(history: History, log: Records) -> None:
    log[1][7] = (7, b"\x00garbage")


def stray_into_another_partition(history: History, log: Records) -> None:
    log[1].append((10, log[0].pop()[1]))


def offer_an_offset_twice(history: History, log: Records) -> None:
    log[0].insert(5, log[0][4])


@pytest.mark.parametrize(
    ("plant", "word"),
    [
        (lose_the_last, "lost"),
        (lose_one_in_the_middle, "lost"),
        (repeat_one, "duplicate"),
        (swap_two, "wrong offset"),
        (swap_two_unacknowledged, "reordered"),
        (leave_a_gap, "gap"),
        (begin_at_one, "gap"),
        (acknowledge_wrongly, "wrong offset"),
        (spoil_a_value, "unsent"),
        (stray_into_another_partition, "unsent"),
        (offer_an_offset_twice, "gap"),
    ],
)
def test_a_planted_fault_is_found(plant: Callable[[History, Records], None], word: str) -> None:
    history, log = story()
    plant(history, log)
    assert word in {line.split(":")[0] for line in problems([history], log)}


def test_a_clean_story_has_no_problems() -> None:
    history, log = story()
    assert problems([history], log) == []


def test_a_record_acknowledged_without_an_offset_may_be_anywhere_but_must_be_there() -> None:
    history, log = story()
    history.acknowledged[Mark("p", 1, 2)] = None
    assert problems([history], log) == []
    history.acknowledged[Mark("p", 1, 99)] = None
    history.sent.add(Mark("p", 1, 99))
    assert [line.split(":")[0] for line in problems([history], log)] == ["lost"]


def test_a_record_never_acknowledged_may_be_missing() -> None:
    history, log = story()
    last = Mark("p", 0, 10)
    history.sent.add(last)
    assert problems([history], log) == []


def test_a_plain_producer_may_repeat_itself_but_not_lose() -> None:
    history, log = story(exactly_once=False)
    repeat_one(history, log)
    assert problems([history], log) == []
    lose_one_in_the_middle(history, log)
    assert any(line.startswith("lost") for line in problems([history], log))


def test_a_loss_on_an_empty_log_is_found() -> None:
    history, _ = story()
    assert len(problems([history], {0: [], 1: []})) == 20
