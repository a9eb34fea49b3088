"""Conditions keep the time since when something is so."""

from kafscale.operator.kinds.metadata import Condition
from kafscale.operator.planning.conditions import Judgement, changes, merge


def judged(status: bool | None, reason: str, old: list[Condition], now: str) -> list[Condition]:
    return merge(old, [Judgement("Ready", status, reason)], now, 1)


def test_a_time_changes_only_with_a_status() -> None:
    first = judged(False, "Starting", [], "t1")
    second = judged(False, "CrashLooping", first, "t2")
    third = judged(True, "Ready", second, "t3")
    assert [one[0].last_transition_time for one in (first, second, third)] == ["t1", "t1", "t3"]


def test_what_is_not_found_any_more_is_left_out() -> None:
    paused = merge([], [Judgement("Paused", True, "Paused")], "t1", 1)
    assert judged(True, "Ready", paused, "t2")[0].type == "Ready"
    assert len(judged(True, "Ready", paused, "t2")) == 1


def test_news_are_turns_and_new_reasons_but_no_first_good_word() -> None:
    good = judged(True, "Ready", [], "t1")
    assert changes([], good) == []
    bad = judged(False, "Starting", good, "t2")
    (change,) = changes(good, bad)
    assert change.is_bad
    assert changes(bad, judged(False, "Starting", bad, "t3")) == []
    (change,) = changes(bad, judged(False, "CrashLooping", bad, "t3"))
    assert change.condition.reason == "CrashLooping"


def test_being_paused_is_no_good_news() -> None:
    (change,) = changes([], merge([], [Judgement("Paused", True, "Paused")], "t1", 1))
    assert change.is_bad
