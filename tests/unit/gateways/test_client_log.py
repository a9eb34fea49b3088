"""How many log lines a client gets."""

from structlog.testing import capture_logs

from kafscale.gateways.client_log import LINES_PER_WINDOW, ClientLog
from kafscale.gateways.line_budget import MOST_CLIENTS, WINDOW_S
from kafscale.testing.clock import ManualClock


def flood(log: ClientLog, peer: str, lines: int) -> None:
    for number in range(lines):
        log.write("bad_request", peer, "corrupt_batch", detail=str(number))


def test_a_client_gets_some_lines_and_the_rest_is_counted() -> None:
    clock = ManualClock()
    log = ClientLog(clock)
    with capture_logs() as logged:
        flood(log, "10.0.0.1", 5000)
        flood(log, "10.0.0.2", 1)
        clock.advance_ms(WINDOW_S * 1000)
        log.end_windows()
    told = [row for row in logged if row["log_level"] == "info"]
    assert [row["peer"] for row in told[:-1]] == ["10.0.0.1"] * LINES_PER_WINDOW + ["10.0.0.2"]
    assert (told[-1]["event"], told[-1]["peer"]) == ("lines_left_out", "10.0.0.1")
    assert told[-1]["count"] == 5000 - LINES_PER_WINDOW
    assert len([row for row in logged if row["event"] == "bad_request"]) == 5001, "debug has all"


def test_a_client_gets_lines_again_in_its_next_window() -> None:
    clock = ManualClock()
    log = ClientLog(clock)
    flood(log, "10.0.0.1", 100)
    clock.advance_ms(WINDOW_S * 1000)
    with capture_logs() as logged:
        flood(log, "10.0.0.1", 1)
    assert [(row["event"], row["log_level"]) for row in logged] == [
        ("lines_left_out", "info"),
        ("bad_request", "info"),
    ]


def test_clients_with_many_addresses_share_the_lines_of_one() -> None:
    log = ClientLog(ManualClock())
    for number in range(MOST_CLIENTS):
        flood(log, f"client {number}", 1)
    with capture_logs() as logged:
        for number in range(5000):
            flood(log, f"late {number}", 1)
        flood(log, "client 7", 1)
        log.aclose()
    told = [row for row in logged if row["log_level"] == "info"]
    assert len(told) == LINES_PER_WINDOW + 2
    assert told[-2]["peer"] == "client 7", "a client that is known has lines of its own"
    assert (told[-1]["peer"], told[-1]["count"]) == ("others", 5000 - LINES_PER_WINDOW)
