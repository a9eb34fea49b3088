"""A client that asks or waits for a broker is told from one that waits for itself."""

import json

import pytest

from tests.faults.asking import Asking, Moment, is_silent


def report(waiting: int = 0, held: int = 0, **sent: int) -> str:
    row = {"waitresp_cnt": waiting, "outbuf_cnt": held, "req": sent}
    quiet = {"waitresp_cnt": 0, "outbuf_cnt": 0, "req": {"Produce": 7}}
    return json.dumps({"brokers": {"one": row, "two": quiet}})


@pytest.mark.parametrize(
    ("reports", "silent"),
    [
        ([report(Metadata=1), report(Metadata=2, SaslAuthenticate=4)], True),
        ([report(FindCoordinator=1), report(FindCoordinator=2)], False),
        ([report(waiting=1), report(waiting=1)], False),
        ([report(held=1), report(held=1)], False),
        ([report(), report(waiting=1), report()], False),
    ],
)
def test_a_client_is_silent_if_it_neither_asks_nor_waits(reports: list[str], silent: bool) -> None:
    assert is_silent([Moment.of(text) for text in reports]) == silent


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("reports", "alone"),
    [([report(), report()], True), ([report(), report(TxnOffsetCommit=1)], False), ([], False)],
)
def test_what_a_client_says_while_it_is_polled_decides(reports: list[str], alone: bool) -> None:
    asking = Asking()
    asking.told(report(Produce=1))
    left = list(reports)

    def poll(_: float) -> None:
        if left:
            asking.told(left.pop(0))

    assert asking.is_waiting_for_itself(poll, 0.05) == alone
